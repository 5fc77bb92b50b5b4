import type { Delta, Position, Snapshot, TableRow } from '@weighbridge/contracts';
import {
  NO_TABLES,
  type RoutingTable,
  routingTable,
  type Tables,
  tablesOf,
  withRows,
} from '@weighbridge/state';
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

  get tables(): Tables {
    return this.#table?.tables ?? NO_TABLES;
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

  /**
   * Replaces the state, by the rows that preceded the snapshot if it has any. Cached keys are outdated: they may be from another
   * history, or older than a missed change.
   */
  applySnapshot(snapshot: Snapshot, rows: readonly TableRow[], nowMs: number): void {
    if (!snapshot.position) return;
    const tables = snapshot.rowParts > 0 ? withRows(NO_TABLES, rows) : tablesOf(snapshot);
    this.#keys.reset();
    this.#setTables(tables);
    this.#position = snapshot.position;
    this.#lastContactMs = nowMs;
  }

  /**
   * Applies a change, with the rows that preceded it. Returns `gap` if an earlier change is missing: then only a snapshot helps. Throws,
   * and changes nothing, if the rows do not fit.
   */
  applyDelta(delta: Delta, rows: readonly TableRow[]): 'applied' | 'known' | 'gap' {
    if (!this.#position || delta.fromRevision > this.#position.revision) return 'gap';
    if (delta.toRevision <= this.#position.revision) return 'known';
    const tables = delta.tables ? tablesOf(delta.tables) : withRows(this.tables, rows);
    // The delta may overlap what was applied; invalidating a key twice does no harm.
    this.#keys.invalidate({
      revision: delta.toRevision,
      keyIds: new Set(delta.keyIds),
      policyIds: new Set(delta.policyIds),
      policies: delta.policies,
      principalIds: new Set(delta.principalIds),
      allKeys: delta.allKeys,
    });
    if (tables !== this.tables) this.#setTables(tables);
    this.#position = { ...this.#position, revision: delta.toRevision };
    return 'applied';
  }

  /** Starts from the state that an earlier process stored, at its age. */
  restore(snapshot: Snapshot, lastContactMs: number): void {
    if (!snapshot.position) return;
    this.#setTables(tablesOf(snapshot));
    this.#position = snapshot.position;
    this.#lastContactMs = lastContactMs;
  }

  #setTables(tables: Tables): void {
    this.#table = routingTable(tables, this.#table);
  }
}
