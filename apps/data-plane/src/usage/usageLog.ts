import type { Intent, OpenAttempt, SettledEvent, Spool } from '../spool/types.ts';

/** Where attempts are written down before they cost anything. From there they find their way to the ledger. */
export interface UsageLog {
  /** Whether an attempt of the usual size finds room: asked before anything is spent. */
  hasRoom(): boolean;
  /** Throws where it can't be written down: nothing may be sent then. */
  begin(intent: Intent): Pick<OpenAttempt, 'settle'>;
  /** Where the disk is waited for: resolves when all of the above is there. */
  durable(): Promise<void> | undefined;
  /** Attempts without an end. */
  readonly openAttempts: number;
}

/** Most take a tenth of it. A larger one may still be refused when it begins. */
const HEAD_BYTES = 4 * 1024;

/** The spool as the pipeline sees it; `onSettled` is told of each event with its number. */
export function createUsageLog(
  spool: Pick<Spool, 'hasRoom' | 'begin' | 'durable'>,
  onSettled: (event: SettledEvent) => void,
): UsageLog {
  let openAttempts = 0;
  return {
    get openAttempts() {
      return openAttempts;
    },
    hasRoom: () => spool.hasRoom(HEAD_BYTES),
    begin(intent) {
      const attempt = spool.begin(intent);
      openAttempts++;
      return {
        settle(tail) {
          const event = attempt.settle(tail);
          openAttempts--;
          onSettled(event);
          return event;
        },
      };
    },
    durable: () => spool.durable(),
  };
}
