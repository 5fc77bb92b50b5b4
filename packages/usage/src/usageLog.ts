import type { Intent, SettledEvent, Spool, SpooledAttempt } from './spool/types.ts';

/** Records attempts before they cost anything. From here their usage reaches the ledger. */
export interface UsageLog {
  /** Whether an attempt of the usual size fits; checked before anything is spent. */
  hasRoom(): boolean;
  /** Whether `writeIntent` suffices before an attempt is sent. */
  readonly isDurableOnceWritten: boolean;
  /** Throws if the attempt can't be recorded. Nothing may be sent before `durable` resolves, or `writeIntent` returns. */
  begin(intent: Intent): RecordedAttempt;
  /** Call it directly after `begin` and `settle`: resolves when they are written. */
  durable(): Promise<void> | undefined;
  /** Attempts without an end. */
  readonly openAttempts: number;
}

/** An attempt from its INTENT on. */
export interface RecordedAttempt {
  /** The INTENT could not be written: the attempt leaves no trace and must not be sent. */
  readonly isRefused: boolean;
  /** Writes the INTENT now, unless it is written; throws if that fails. */
  writeIntent(): void;
  settle(tail: Uint8Array): void;
}

/** Most heads take a tenth of this. A larger one may still be refused by `begin`. */
const HEAD_BYTES = 4 * 1024;

/** `onSettled` is called with each event once it is written and numbered. */
export function createUsageLog(
  spool: Pick<Spool, 'hasRoom' | 'begin' | 'durable' | 'isDurableOnceWritten' | 'openAttempts'>,
  onSettled: (event: SettledEvent) => void,
): UsageLog {
  return {
    get openAttempts() {
      return spool.openAttempts;
    },
    isDurableOnceWritten: spool.isDurableOnceWritten,
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

  writeIntent(): void {
    this.#attempt.writeIntent();
  }

  settle(tail: Uint8Array): void {
    this.#attempt.settle(tail, this.#onSettled);
  }
}
