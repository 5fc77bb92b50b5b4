import type { Delta, Position, Snapshot } from '@weighbridge/contracts';
import type { KeyStore } from './keyStore.ts';
import { type RoutingTable, routingTable } from './routingTable.ts';

/**
 * Where a proxy stands with its control plane.
 * STARTING → LIVE by the first snapshot; LIVE → STALE when no heartbeat came for a while: it serves what it knows;
 * STALE → EXPIRED after the longest time that it may; any of them → LIVE by a heartbeat.
 */
export type ControlStatus = 'starting' | 'live' | 'stale' | 'expired';

/** No heartbeat for so long, and the control plane counts as away. They come every second. */
const LIVE_MS = 3_000;

/** What a proxy knows of the control plane's state, and up to which revision. All times are the caller's, monotonic. */
export class ControlState {
  readonly #keys: KeyStore;
  readonly #maxStalenessMs: number;
  #snapshot: Snapshot | undefined;
  #table: RoutingTable | undefined;
  #position: Position | undefined;
  #heardAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: { readonly keys: KeyStore; readonly maxStalenessMs: number }) {
    this.#keys = options.keys;
    this.#maxStalenessMs = options.maxStalenessMs;
  }

  state(nowMs: number): ControlStatus {
    if (!this.#table) return 'starting';
    const silence = nowMs - this.#heardAtMs;
    if (silence < LIVE_MS) return 'live';
    return silence < this.#maxStalenessMs ? 'stale' : 'expired';
  }

  get table(): RoutingTable | undefined {
    return this.#table;
  }

  /** What has been applied; undefined before the first snapshot. */
  get position(): Position | undefined {
    return this.#position;
  }

  get snapshot(): Snapshot | undefined {
    return this.#snapshot;
  }

  /** When the control plane was last heard of. */
  get heardAtMs(): number {
    return this.#heardAtMs;
  }

  /**
   * Counts from when the status was sent that the heartbeat answers, not from its arrival. It is only as good as what was
   * applied: one that knows of more than this proxy does not renew its right.
   */
  heartbeat(revision: bigint, heardAtMs: number): void {
    if (!this.#position || revision > this.#position.revision) return;
    this.#heardAtMs = Math.max(this.#heardAtMs, heardAtMs);
  }

  /** Takes everything anew. What is known of keys may be from another history, or before what was missed. */
  applySnapshot(snapshot: Snapshot, nowMs: number): void {
    if (!snapshot.position) return;
    this.#keys.invalidate({ ...NONE, revision: snapshot.revision, allKeys: true });
    this.#setTables(snapshot);
    this.#position = snapshot.position;
    this.#heardAtMs = nowMs;
  }

  /** Takes a change in. `gap` where something before it is missing: then only a snapshot helps. */
  applyDelta(delta: Delta): 'applied' | 'known' | 'gap' {
    if (!this.#position || delta.fromRevision > this.#position.revision) return 'gap';
    if (delta.toRevision <= this.#position.revision) return 'known';
    // It may begin before what was applied: to forget a key twice does no harm.
    this.#keys.invalidate({
      revision: delta.toRevision,
      keyIds: new Set(delta.keyIds),
      policyIds: new Set(delta.policyIds),
      principalIds: new Set(delta.principalIds),
      allKeys: delta.allKeys,
    });
    if (delta.tables) this.#setTables(delta.tables);
    this.#position = { ...this.#position, revision: delta.toRevision };
    return 'applied';
  }

  /** Takes up what an earlier process left, as old as it says it is. */
  restore(snapshot: Snapshot, heardAtMs: number): void {
    if (!snapshot.position) return;
    this.#setTables(snapshot);
    this.#position = snapshot.position;
    this.#heardAtMs = heardAtMs;
  }

  #setTables(snapshot: Snapshot): void {
    this.#snapshot = snapshot;
    this.#table = routingTable(snapshot, this.#table);
  }
}

const NONE = {
  keyIds: new Set<string>(),
  policyIds: new Set<string>(),
  principalIds: new Set<string>(),
};
