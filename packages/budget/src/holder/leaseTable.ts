import { type BucketRef, bucketKey } from '../bucketRef.ts';
import { MAX_BUCKETS_PER_CALL } from '../leaseWire.ts';
import type { BudgetedPolicy } from '../policies.ts';
import { ForgottenLeases } from './forgottenLeases.ts';
import { Lease, type PersistedLease } from './lease.ts';
import type { LeaseCalls } from './leaseCalls.ts';
import { type LeaseEntry, newEntry } from './leaseEntry.ts';

export interface LeaseTableDeps {
  readonly calls: Pick<LeaseCalls, 'ask' | 'has' | 'idle'>;
  /** Time since the last contact with the control plane, in milliseconds, by the larger of both clocks. */
  readonly silenceMs: () => number;
  /** The control plane's clock as known here, in Unix milliseconds. */
  readonly clockMs: () => number;
  /** Monotonic, in milliseconds. */
  readonly nowMs: () => number;
}

/** A lease from which nothing was reserved for this long is returned, but for what it may keep. */
const IDLE_MS = 30_000;
/** A lease that was used within this time keeps its small part while it is idle. */
const STANDING_MS = 86_400_000;
/** Heartbeats come every second; after this silence, the control plane can't take leases back. */
const SILENT_MS = 3_000;
/** A reclaimed lease retains this many seconds of its spending. */
const RETAINED_SECONDS = 2n;
/** Idle leases that are returned in a second: one call, however many keys fell silent together. */
const MAX_RETURNS_PER_SECOND = MAX_BUCKETS_PER_CALL;
/** Of an empty lease that no request asked for in this time, only the figures stay. */
const FORGET_MS = 300_000;
/** Entries that a second's sweep looks at: less than a millisecond of the thread. */
const SWEPT_PER_SECOND = 500;
/** The first round may reveal a grant whose response was lost, the second returns it, the third is for a lost call. */
const CLOSE_ROUNDS = 3;
/** Longer than any request, and than the clocks of two control planes differ. */
const RETAINED_AFTER_WINDOW_MS = 3_600_000;

/**
 * The leases of a proxy by bucket: in use ─► idle ─► empty ─► forgotten ─► dropped.
 *
 * - idle: nothing was reserved for 30 s; what is available is returned, but for the small part that the lease may keep for a day.
 * - empty: the control plane has acknowledged the return, so nothing else is held.
 * - forgotten: no request asked for it for five minutes. Its figures stay, because they are cumulative and what was reported
 *   can't be undone; the next request goes on from them.
 * - dropped: its window is over, so no request asks for it again.
 */
export class LeaseTable {
  readonly #deps: LeaseTableDeps;
  readonly #entries = new Map<string, LeaseEntry>();
  /** Entries with reservations now or recently. */
  readonly #active = new Set<LeaseEntry>();
  readonly #forgotten = new ForgottenLeases();
  #sweep: Iterator<[string, LeaseEntry]> | undefined;

  constructor(deps: LeaseTableDeps) {
    this.#deps = deps;
  }

  get size(): number {
    return this.#entries.size;
  }

  get forgotten(): number {
    return this.#forgotten.size;
  }

  /** The entry that a request reserves from: that of `others` if its key may open no more buckets of the limit. */
  entryOf(policy: BudgetedPolicy, nowMs: number): LeaseEntry {
    const entry = this.#ownEntry(policy, nowMs);
    const opening = policy.limit?.opening;
    if (!opening) return entry;
    if (entry.lease.isClosedTo(opening.keyId, nowMs)) return this.#ownEntry(opening.others, nowMs);
    entry.lease.keyId = opening.keyId;
    return entry;
  }

  #ownEntry({ bucket, bucketKey, windowEndMs }: BudgetedPolicy, nowMs: number): LeaseEntry {
    const existing = this.#entries.get(bucketKey);
    if (existing) {
      existing.usedAtMs = nowMs;
      return existing;
    }
    const lease = this.#forgotten.take(bucketKey) ?? new Lease(bucket);
    const entry = newEntry(lease, windowEndMs, nowMs);
    this.#entries.set(bucketKey, entry);
    return entry;
  }

  /** Makes a forgotten lease one of the others, so that what it keeps is returned. */
  #revive(key: string, nowMs: number): LeaseEntry | undefined {
    const windowEndMs = this.#forgotten.windowEndOf(key);
    const lease = this.#forgotten.take(key);
    if (!lease) return undefined;
    const entry = newEntry(lease, windowEndMs, nowMs);
    this.#entries.set(key, entry);
    this.#active.add(entry);
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
      const key = bucketKey(bucket);
      const entry = this.#entries.get(key) ?? this.#revive(key, this.#deps.nowMs());
      if (!entry) continue;
      // If requests wait here too, the lease is too small for each of them.
      const isShort = entry.waiting.length > 0;
      const retained = isShort ? 0n : (entry.lease.burnPerSecond ?? 0n) * RETAINED_SECONDS;
      this.#report(entry.lease, entry.lease.returnBeyond(retained));
    }
  }

  /** Call it each second: measures spending, returns idle leases and forgets those that stay idle. */
  everySecond(): void {
    const nowMs = this.#deps.nowMs();
    this.#returnIdle(nowMs);
    this.#sweepSome(nowMs);
  }

  /** Takes over the leases of an earlier process of the same epoch. */
  restore(persisted: readonly PersistedLease[]): void {
    for (const lease of persisted) {
      const [policyId, counterVersion, subject, windowStartMs] = lease.bucket;
      const bucket = { policyId, counterVersion, subject, windowStartMs: BigInt(windowStartMs) };
      const entry = newEntry(new Lease(bucket, lease), undefined, this.#deps.nowMs());
      this.#entries.set(bucketKey(bucket), entry);
      this.#active.add(entry);
    }
  }

  /** For a later process of the same epoch. Call it when nothing is reserved. */
  toPersisted(): PersistedLease[] {
    const leases = Array.from(this.#entries.values(), ({ lease }) => lease.toPersisted());
    return [...leases, ...this.#forgotten.toPersisted()];
  }

  /** Returns everything that is not reserved; resolves when the control plane has it, or the calls failed. */
  async returnAll(): Promise<void> {
    for (const key of this.#forgotten.keysWithRoom()) this.#revive(key, this.#deps.nowMs());
    for (let round = 0; round < CLOSE_ROUNDS; round++) {
      for (const { lease } of this.#entries.values()) this.#report(lease, lease.returnBeyond(0n));
      await this.#deps.calls.idle();
    }
  }

  #returnIdle(nowMs: number): void {
    // Without the control plane, idle leases are all that can be spent.
    const canReturn = this.#deps.silenceMs() < SILENT_MS;
    const clockMs = this.#deps.clockMs();
    const asked: LeaseEntry[] = [];
    for (const entry of this.#active) {
      const { lease } = entry;
      lease.measureBurn();
      if (!canReturn) continue;
      if (!lease.isReplaced && nowMs - lease.reservedAtMs < IDLE_MS) continue;
      // Its turn comes in a later second.
      if (asked.length === MAX_RETURNS_PER_SECOND) continue;
      const kept = keptOf(entry, nowMs, clockMs);
      if (this.#report(lease, lease.returnIdle(kept))) asked.push(entry);
      if (!lease.restsAt(kept)) continue;
      this.#active.delete(entry);
      if (lease.isReplaced && !isNearEdge(entry, clockMs)) {
        this.#entries.delete(bucketKey(lease.bucket));
      }
    }
    // Behind those that wait for their turn: a call that keeps failing must not hold them up.
    for (const entry of asked) {
      this.#active.delete(entry);
      this.#active.add(entry);
    }
  }

  /** Drops empty leases of past windows, and forgets those that no request asked for. */
  #sweepSome(nowMs: number): void {
    const clockMs = this.#deps.clockMs();
    const endedBeforeMs = clockMs - RETAINED_AFTER_WINDOW_MS;
    const due = this.#forgotten.sweep(SWEPT_PER_SECOND, {
      endedBeforeMs,
      clockMs,
      usedBeforeMs: nowMs - STANDING_MS,
    });
    for (const key of due) this.#revive(key, nowMs);
    this.#sweep ??= this.#entries.entries();
    for (let seen = 0; seen < SWEPT_PER_SECOND; seen++) {
      const next = this.#sweep.next();
      if (next.done) {
        this.#sweep = undefined;
        return;
      }
      const [key, entry] = next.value;
      const { lease, waiting, windowEndMs, usedAtMs } = entry;
      const isPast = windowEndMs !== undefined && windowEndMs < endedBeforeMs;
      if (!isPast && nowMs - usedAtMs < FORGET_MS) continue;
      const kept = keptOf(entry, nowMs, clockMs);
      // It may no longer keep its standing part, so that is returned.
      if (lease.available > kept) this.#active.add(entry);
      // A call's response, and a request that waits for it, need the lease that asked.
      if (!lease.restsAt(kept) || waiting.length > 0 || this.#deps.calls.has(lease)) continue;
      this.#entries.delete(key);
      this.#active.delete(entry);
      if (!isPast && !lease.isUnused) this.#forgotten.add(key, lease, windowEndMs);
    }
  }

  /** True if the control plane has to be told. */
  #report(lease: Lease, isReturned: boolean): boolean {
    const isAsked = isReturned || lease.isUncertain;
    if (isAsked) this.#deps.calls.ask(lease, 0n);
    return isAsked;
  }
}

/** What an idle lease keeps: a part that still serves if the control plane can grant no more. */
function keptOf({ lease, windowEndMs }: LeaseEntry, nowMs: number, clockMs: number): bigint {
  const isOver = lease.isReplaced || (windowEndMs !== undefined && windowEndMs <= clockMs);
  return isOver || nowMs - lease.reservedAtMs >= STANDING_MS ? 0n : lease.standing;
}

/** With skewed clocks, one control plane may call a window over and the next one current: its figures must be retained. */
function isNearEdge({ lease, windowEndMs }: LeaseEntry, clockMs: number): boolean {
  const edges = [Number(lease.bucket.windowStartMs), windowEndMs ?? Number.POSITIVE_INFINITY];
  return edges.some((edge) => Math.abs(clockMs - edge) < RETAINED_AFTER_WINDOW_MS);
}
