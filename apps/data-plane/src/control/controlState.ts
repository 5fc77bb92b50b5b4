import type { Delta, Position, Snapshot } from '@weighbridge/contracts';
import { type RoutingTable, routingTable } from '@weighbridge/state';
import type { KeyStore } from './keyStore.ts';

/**
 * The freshness of a proxy's state:
 *
 *   starting → live → stale → expired; any → live
 *
 * starting  no snapshot yet
 * live      a heartbeat arrived within the last seconds
 * stale     no heartbeat for a while: the proxy serves the state it has
 * expired   no heartbeat for longer than the staleness limit: the proxy answers 503
 */
export type ControlStatus = 'starting' | 'live' | 'stale' | 'expired';

/** Heartbeats come every second. */
const LIVE_MS = 3_000;

/** The control plane's state as this proxy has applied it, up to a revision. All times are the caller's, monotonic. */
export class ControlState {
  readonly #keys: KeyStore;
  readonly #maxStalenessMs: number;
  #snapshot: Snapshot | undefined;
  #table: RoutingTable | undefined;
  #position: Position | undefined;
  #lastContactMs = Number.NEGATIVE_INFINITY;
  #stream = 0;

  constructor(options: { readonly keys: KeyStore; readonly maxStalenessMs: number }) {
    this.#keys = options.keys;
    this.#maxStalenessMs = options.maxStalenessMs;
  }

  status(nowMs: number): ControlStatus {
    if (!this.#table) return 'starting';
    const silence = nowMs - this.#lastContactMs;
    if (silence < LIVE_MS) return 'live';
    return silence < this.#maxStalenessMs ? 'stale' : 'expired';
  }

  get table(): RoutingTable | undefined {
    return this.#table;
  }

  /** The applied revision; undefined before the first snapshot. */
  get position(): Position | undefined {
    return this.#position;
  }

  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  get lastContactMs(): number {
    return this.#lastContactMs;
  }

  /**
   * The number of the current control stream. A key that was read during it is announced on it when it changes. Of an earlier
   * stream that is not certain: a restored database may have the same revisions, and another release another form of keys.
   */
  get stream(): number {
    return this.#stream;
  }

  beginStream(): void {
    this.#stream++;
  }

  /**
   * `sentAtMs` is when this proxy sent the status that the heartbeat answers. A heartbeat of a revision that is not applied
   * here yet does not count: it must not prolong the use of older state. Returns whether it counts.
   */
  heartbeat(revision: bigint, sentAtMs: number): boolean {
    if (!this.#position || revision > this.#position.revision) return false;
    this.#lastContactMs = Math.max(this.#lastContactMs, sentAtMs);
    return true;
  }

  /** Replaces the state. Cached keys are outdated: they may be from another history, or older than a missed change. */
  applySnapshot(snapshot: Snapshot, nowMs: number): void {
    if (!snapshot.position) return;
    this.#keys.reset();
    this.#setTables(snapshot);
    this.#position = snapshot.position;
    this.#lastContactMs = nowMs;
  }

  /** Applies a change. Returns `gap` if an earlier change is missing: then only a snapshot helps. */
  applyDelta(delta: Delta): 'applied' | 'known' | 'gap' {
    if (!this.#position || delta.fromRevision > this.#position.revision) return 'gap';
    if (delta.toRevision <= this.#position.revision) return 'known';
    // The delta may overlap what was applied; invalidating a key twice does no harm.
    this.#keys.invalidate({
      revision: delta.toRevision,
      keyIds: new Set(delta.keyIds),
      policyIds: new Set(delta.policyIds),
      policies: delta.policies,
      principalIds: new Set(delta.principalIds),
      allKeys: delta.allKeys,
    });
    if (delta.tables) this.#setTables(delta.tables);
    this.#position = { ...this.#position, revision: delta.toRevision };
    return 'applied';
  }

  /** Starts from the state that an earlier process stored, at its age. */
  restore(snapshot: Snapshot, lastContactMs: number): void {
    if (!snapshot.position) return;
    this.#setTables(snapshot);
    this.#position = snapshot.position;
    this.#lastContactMs = lastContactMs;
  }

  #setTables(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
    this.#table = routingTable(snapshot, this.#table);
  }
}
