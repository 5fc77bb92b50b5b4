import { bucketOfKey } from '../bucketRef.ts';
import { Lease, type PersistedLease } from './lease.ts';

/** The figures of a lease at rest. */
type RestingFigures = Omit<PersistedLease, 'bucket'>;

interface Remembered extends RestingFigures {
  readonly windowEndMs: number | undefined;
  /** Monotonic. */
  readonly reservedAtMs: number;
}

/** Which of the forgotten leases are over: by the clock, and by their last use. */
interface Over {
  readonly endedBeforeMs: number;
  readonly clockMs: number;
  readonly usedBeforeMs: number;
}

/**
 * What is left of leases that were not used for a while: their figures, as text. Figures are cumulative within an epoch, and the
 * control plane answers with the cumulative grant: a lease that began at 0 again would spend all of it a second time. What a lease
 * may keep while it is idle stays in its figures.
 * An entry takes a third of a lease's memory, about half of it for the key.
 */
export class ForgottenLeases {
  /** By bucket key: granted, returned, used, the end of the window if it is known, what it may keep, and when it was used. */
  readonly #figures = new Map<string, string>();
  #sweep: Iterator<[string, string]> | undefined;

  get size(): number {
    return this.#figures.size;
  }

  add(bucketKey: string, lease: Lease, windowEndMs: number | undefined): void {
    const { granted, returned, used, standing = '' } = lease.toPersisted();
    const usedAt = standing === '' ? '' : String(Math.floor(lease.reservedAtMs));
    // `join` makes one flat string; a template would retain its parts.
    this.#figures.set(
      bucketKey,
      [granted, returned, used, windowEndMs ?? '', standing, usedAt].join(' ').trimEnd(),
    );
  }

  /** The lease as it goes on; it is no longer here. */
  take(bucketKey: string): Lease | undefined {
    const figures = this.#figures.get(bucketKey);
    if (figures === undefined) return undefined;
    this.#figures.delete(bucketKey);
    const { windowEndMs: _, reservedAtMs, ...remembered } = parse(figures);
    return Lease.remembered(bucketOfKey(bucketKey), remembered, reservedAtMs);
  }

  windowEndOf(bucketKey: string): number | undefined {
    const figures = this.#figures.get(bucketKey);
    return figures === undefined ? undefined : parse(figures).windowEndMs;
  }

  /** Those that kept something. */
  keysWithRoom(): string[] {
    return [...this.#figures].filter(([, figures]) => roomOf(parse(figures)) > 0n).map(([key]) => key);
  }

  toPersisted(): PersistedLease[] {
    return Array.from(this.#figures, ([key, figures]) => {
      const { policyId, counterVersion, windowStartMs, subject } = bucketOfKey(key);
      const { windowEndMs: _, reservedAtMs: __, ...remembered } = parse(figures);
      return { bucket: [policyId, counterVersion, subject, String(windowStartMs)], ...remembered };
    });
  }

  /** Looks at the next `count` entries, and drops those whose window ended long ago. Returns those that must give up what they kept. */
  sweep(count: number, { endedBeforeMs, clockMs, usedBeforeMs }: Over): string[] {
    const due: string[] = [];
    this.#sweep ??= this.#figures.entries();
    for (let seen = 0; seen < count; seen++) {
      const next = this.#sweep.next();
      if (next.done) {
        this.#sweep = undefined;
        break;
      }
      const [key, text] = next.value;
      const figures = parse(text);
      const { windowEndMs = Number.POSITIVE_INFINITY, reservedAtMs } = figures;
      const isOver = windowEndMs <= clockMs || reservedAtMs < usedBeforeMs;
      if (isOver && roomOf(figures) > 0n) due.push(key);
      else if (windowEndMs < endedBeforeMs) this.#figures.delete(key);
    }
    return due;
  }
}

function parse(text: string): Remembered {
  const [granted = '', returned = '', used = '', windowEnd, standing, usedAt] = text.split(' ');
  return {
    granted,
    returned,
    used,
    ...(standing && { standing }),
    windowEndMs: windowEnd ? Number(windowEnd) : undefined,
    reservedAtMs: usedAt ? Number(usedAt) : Number.NEGATIVE_INFINITY,
  };
}

function roomOf({ granted, returned, used, standing }: RestingFigures): bigint {
  // Without a standing part, a lease at rest holds nothing.
  return standing === undefined ? 0n : BigInt(granted) - BigInt(returned) - BigInt(used);
}
