import type { Target } from '../control/target.ts';

/** For how long a failed request counts: within it, SDKs and agents repeat what failed. */
const REMEMBERED_MS = 10_000;
/** Further failures are forgotten, the oldest first: those requests are retried once more than they need to be. */
const MAX_REMEMBERED = 10_000;

/**
 * The targets at which a request of a key failed a moment ago, after all its attempts. Its next request there gets one attempt:
 * a client that repeats its failed requests would multiply its tries by those of this service. `nowMs` is monotonic.
 */
export class RecentFailures {
  readonly #nowMs: () => number;
  /** By key and target; the oldest first. */
  readonly #failedAtMs = new Map<string, number>();

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get size(): number {
    return this.#failedAtMs.size;
  }

  note(keyId: string, target: Target): void {
    const name = nameOf(keyId, target);
    this.#failedAtMs.delete(name);
    this.#failedAtMs.set(name, this.#nowMs());
    if (this.#failedAtMs.size <= MAX_REMEMBERED) return;
    const [oldest] = this.#failedAtMs.keys();
    if (oldest !== undefined) this.#failedAtMs.delete(oldest);
  }

  has(keyId: string, target: Target): boolean {
    if (this.#failedAtMs.size === 0) return false;
    const name = nameOf(keyId, target);
    const failedAtMs = this.#failedAtMs.get(name);
    if (failedAtMs === undefined) return false;
    if (this.#nowMs() - failedAtMs < REMEMBERED_MS) return true;
    this.#failedAtMs.delete(name);
    return false;
  }

  /** The target answers again. */
  forget(keyId: string, target: Target): void {
    if (this.#failedAtMs.size > 0) this.#failedAtMs.delete(nameOf(keyId, target));
  }
}

function nameOf(keyId: string, { model, connector }: Target): string {
  return `${keyId} ${connector.id} ${model.id}`;
}
