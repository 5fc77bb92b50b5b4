import { AppError } from '@weighbridge/errors';

/** Look-ups of known keys that run at once: a part of a batch, beside those of keys that are not known yet. */
const MAX_RUNNING = 64;
/** No one waits longer for its turn. */
const MAX_WAIT_MS = 10_000;

/**
 * The look-ups of keys that are known here. When a change makes thousands of keys outdated, they wait in turn: the control
 * plane gets no burst, and no request is refused for their number. As many wait at most as keys are cached.
 */
export class LookUpQueue {
  readonly #nowMs: () => number;
  readonly #waiting = new Set<() => void>();
  #running = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  /** A look-up would have to wait. */
  get isFull(): boolean {
    return this.#running >= MAX_RUNNING;
  }

  async run<T>(lookUp: () => Promise<T>): Promise<T> {
    const cameAtMs = this.#nowMs();
    if (this.isFull) await new Promise<void>((resolve) => this.#waiting.add(resolve));
    else this.#running++;
    try {
      if (this.#nowMs() - cameAtMs > MAX_WAIT_MS) throw tooManyLookUps();
      return await lookUp();
    } finally {
      this.#next();
    }
  }

  /** Gives the turn to the one that waits longest. */
  #next(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#running--;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

export function tooManyLookUps(): AppError {
  const message = 'Too many keys are being looked up right now. Try again.';
  return new AppError('unavailable', 'too_many_look_ups', message);
}
