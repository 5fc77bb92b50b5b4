import type { Intent, SettledEvent, Spool, SpooledAttempt } from './spool/types.ts';

/** Where attempts are written down before they cost anything. From there they find their way to the ledger. */
export interface UsageLog {
  /** Whether an attempt of the usual size finds room: asked before anything is spent. */
  hasRoom(): boolean;
  /** Throws where it can't be written down. Nothing may be sent before `durable` has resolved. */
  begin(intent: Intent): RecordedAttempt;
  /** To be asked at once after each of the above, and of `settle`: resolves when it is written. */
  durable(): Promise<void> | undefined;
  /** Attempts without an end. */
  readonly openAttempts: number;
}

export interface RecordedAttempt {
  /** Its beginning could not be written: nobody will ever learn of it. */
  readonly isRefused: boolean;
  settle(tail: Uint8Array): void;
}

/** Most take a tenth of it. A larger one may still be refused when it begins. */
const HEAD_BYTES = 4 * 1024;

/** The spool as the pipeline sees it; `onSettled` is told of each event with its number, once it is written. */
export function createUsageLog(
  spool: Pick<Spool, 'hasRoom' | 'begin' | 'durable' | 'openAttempts'>,
  onSettled: (event: SettledEvent) => void,
): UsageLog {
  return {
    get openAttempts() {
      return spool.openAttempts;
    },
    hasRoom: () => spool.hasRoom(HEAD_BYTES),
    begin: (intent) => new LoggedAttempt(spool.begin(intent), onSettled),
    durable: () => spool.durable(),
  };
}

class LoggedAttempt implements RecordedAttempt {
  readonly #attempt: SpooledAttempt;
  readonly #onSettled: (event: SettledEvent) => void;

  constructor(attempt: SpooledAttempt, onSettled: (event: SettledEvent) => void) {
    this.#attempt = attempt;
    this.#onSettled = onSettled;
  }

  get isRefused(): boolean {
    return this.#attempt.isRefused;
  }

  settle(tail: Uint8Array): void {
    this.#attempt.settle(tail, this.#onSettled);
  }
}
