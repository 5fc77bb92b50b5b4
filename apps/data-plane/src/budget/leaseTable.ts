import { create } from '@bufbuild/protobuf';
import { type BucketRef, BucketRefSchema, BudgetLease_Outcome } from '@weighbridge/contracts';
import { type BudgetedPolicy, bucketKey } from '../control/keyPolicies.ts';
import { Lease, type PersistedLease } from './lease.ts';
import type { LeaseCalls } from './leaseCalls.ts';
import { type LeaseEntry, newEntry } from './leaseEntry.ts';

export interface LeaseTableDeps {
  readonly calls: Pick<LeaseCalls, 'ask' | 'idle'>;
  /** Time since the last contact with the control plane, in milliseconds, by the larger of both clocks. */
  readonly silenceMs: () => number;
  /** The control plane's clock as known here, in Unix milliseconds. */
  readonly clockMs: () => number;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

/** A lease from which nothing was reserved for this long is returned. */
const IDLE_MS = 30_000;
/** Heartbeats come every second; after this silence, the control plane can't take leases back. */
const SILENT_MS = 3_000;
/** A reclaimed lease retains this many seconds of its spending. */
const RETAINED_SECONDS = 2n;
const SWEEP_MS = 60_000;
/** The first round may reveal a grant whose response was lost, the second returns it, the third is for a lost call. */
const CLOSE_ROUNDS = 3;
/** Longer than any request, and than the clocks of two control planes differ. */
const RETAINED_AFTER_WINDOW_MS = 3_600_000;

/**
 * The leases of a proxy by bucket. It returns what is idle and drops leases of past windows. A lease is retained until its
 * window is over, because its figures are cumulative and what was reported can't be undone.
 */
export class LeaseTable {
  readonly #deps: LeaseTableDeps;
  readonly #entries = new Map<string, LeaseEntry>();
  /** Entries with reservations now or recently. */
  readonly #active = new Set<LeaseEntry>();
  #sweptAtMs: number;

  constructor(deps: LeaseTableDeps) {
    this.#deps = deps;
    this.#sweptAtMs = deps.nowMs();
  }

  get size(): number {
    return this.#entries.size;
  }

  entryOf(policy: BudgetedPolicy): LeaseEntry {
    const existing = this.#entries.get(policy.bucketKey);
    if (existing) return existing;
    const entry = newEntry(new Lease(policy.bucket), policy.windowEndMs);
    this.#entries.set(policy.bucketKey, entry);
    return entry;
  }

  entryOfLease({ bucket }: Lease): LeaseEntry | undefined {
    return this.#entries.get(bucketKey(bucket));
  }

  /** The lease has reservations, or figures that have to be settled. */
  activate(entry: LeaseEntry): void {
    this.#active.add(entry);
  }

  /** Returns what is idle, because other proxies need it. */
  reclaim(buckets: readonly BucketRef[]): void {
    for (const bucket of buckets) {
      const entry = this.#entries.get(bucketKey(bucket));
      if (!entry) continue;
      // If requests wait here too, the lease is too small for each of them.
      const isShort = entry.waiting.length > 0;
      const retained = isShort ? 0n : (entry.lease.burnPerSecond ?? 0n) * RETAINED_SECONDS;
      this.#returnBeyond(entry.lease, retained);
    }
  }

  /** Call it each second: measures spending and returns idle leases. */
  everySecond(): void {
    const nowMs = this.#deps.nowMs();
    // Without the control plane, idle leases are all that can be spent.
    const canReturn = this.#deps.silenceMs() < SILENT_MS;
    for (const entry of this.#active) {
      const { lease } = entry;
      lease.measureBurn();
      if (!canReturn) continue;
      if (!hasBucketEnded(lease) && nowMs - lease.reservedAtMs < IDLE_MS) continue;
      this.#returnBeyond(lease, 0n);
      if (!lease.isEmpty) continue;
      this.#active.delete(entry);
      if (hasBucketEnded(lease) && !isNearEdge(entry, this.#deps.clockMs())) {
        this.#entries.delete(bucketKey(lease.bucket));
      }
    }
    if (nowMs - this.#sweptAtMs >= SWEEP_MS) this.#sweep(nowMs);
  }

  /** Takes over the leases of an earlier process of the same epoch. */
  restore(persisted: readonly PersistedLease[]): void {
    for (const lease of persisted) {
      const [policyId, counterVersion, subject, windowStartMs] = lease.bucket;
      const bucket = create(BucketRefSchema, {
        policyId,
        counterVersion,
        subject,
        windowStartMs: BigInt(windowStartMs),
      });
      const entry = newEntry(new Lease(bucket, lease), undefined);
      this.#entries.set(bucketKey(bucket), entry);
      this.#active.add(entry);
    }
  }

  /** For a later process of the same epoch. Call it when nothing is reserved. */
  toPersisted(): PersistedLease[] {
    return [...this.#entries.values()].map(({ lease }) => lease.toPersisted());
  }

  /** Returns everything that is not reserved; resolves when the control plane has it, or the calls failed. */
  async returnAll(): Promise<void> {
    for (let round = 0; round < CLOSE_ROUNDS; round++) {
      for (const { lease } of this.#entries.values()) this.#returnBeyond(lease, 0n);
      await this.#deps.calls.idle();
    }
  }

  /** Drops the empty leases of past windows that `everySecond` left: idle ones, and those near their window's edge. */
  #sweep(nowMs: number): void {
    this.#sweptAtMs = nowMs;
    const clockMs = this.#deps.clockMs();
    for (const [key, { lease, windowEndMs }] of this.#entries) {
      const isPast = windowEndMs !== undefined && windowEndMs + RETAINED_AFTER_WINDOW_MS < clockMs;
      if (isPast && lease.isEmpty) this.#entries.delete(key);
    }
  }

  #returnBeyond(lease: Lease, retained: bigint): void {
    if (lease.returnBeyond(retained) || lease.isUncertain) this.#deps.calls.ask(lease, 0n);
  }
}

/** With skewed clocks, one control plane may call a window over and the next one current: its figures must be retained. */
function isNearEdge({ lease, windowEndMs }: LeaseEntry, clockMs: number): boolean {
  const edges = [Number(lease.bucket.windowStartMs), windowEndMs ?? Number.POSITIVE_INFINITY];
  return edges.some((edge) => Math.abs(clockMs - edge) < RETAINED_AFTER_WINDOW_MS);
}

/** The control plane reported that the bucket's window has ended or its counter was replaced. */
export function hasBucketEnded({ figures }: Lease): boolean {
  return figures?.outcome === BudgetLease_Outcome.OVER;
}
