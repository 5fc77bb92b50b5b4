import type { Lease, PersistedLease } from './lease.ts';

/** The figures of a lease that holds nothing. */
type LeaseFigures = Pick<PersistedLease, 'granted' | 'returned' | 'used'>;

/**
 * What is left of leases that were not used for a while: their three figures, as text. Figures are cumulative within an epoch,
 * and the control plane answers with the cumulative grant: a lease that began at 0 again would spend all of it a second time.
 * An entry takes a third of a lease's memory, about half of it for the key.
 */
export class ForgottenLeases {
  /** By bucket key: granted, returned, used and, if it is known, the end of the window, separated by spaces. */
  readonly #figures = new Map<string, string>();
  #sweep: Iterator<[string, string]> | undefined;

  get size(): number {
    return this.#figures.size;
  }

  add(bucketKey: string, lease: Lease, windowEndMs: number | undefined): void {
    const { granted, returned, used } = lease.toPersisted();
    // `join` makes one flat string; a template would retain its parts.
    this.#figures.set(bucketKey, [granted, returned, used, windowEndMs ?? ''].join(' '));
  }

  /** The figures from which the lease goes on; they are no longer here. */
  take(bucketKey: string): LeaseFigures | undefined {
    const figures = this.#figures.get(bucketKey);
    if (figures === undefined) return undefined;
    this.#figures.delete(bucketKey);
    return parse(figures);
  }

  toPersisted(): PersistedLease[] {
    return Array.from(this.#figures, ([key, figures]) => {
      const { policyId, counterVersion, windowStart, subject } = partsOf(key);
      return { bucket: [policyId, counterVersion, subject, windowStart], ...parse(figures) };
    });
  }

  /** Looks at the next `count` entries and drops those whose window ended before `endedBeforeMs`. */
  sweep(count: number, endedBeforeMs: number): void {
    this.#sweep ??= this.#figures.entries();
    for (let seen = 0; seen < count; seen++) {
      const next = this.#sweep.next();
      if (next.done) {
        this.#sweep = undefined;
        return;
      }
      const [key, figures] = next.value;
      const windowEndMs = figures.split(' ')[3];
      if (windowEndMs && Number(windowEndMs) < endedBeforeMs) this.#figures.delete(key);
    }
  }
}

function parse(text: string): LeaseFigures {
  const [granted = '', returned = '', used = ''] = text.split(' ');
  return { granted, returned, used };
}

/** The inverse of `bucketKey`: only the subject, which is last, may contain a slash. */
function partsOf(key: string) {
  const [policyId = '', version, windowStart = '', ...subject] = key.split('/');
  return { policyId, counterVersion: Number(version), windowStart, subject: subject.join('/') };
}
