import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type Delta,
  type Policy,
  PolicySchema,
  PositionSchema,
  type Snapshot,
  SnapshotSchema,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import { changedIds, changesTables, deltaOf, MAX_TABLE_BYTES, type RecordedChange } from '@weighbridge/state';
import type { Position } from '../changes/changes.service.ts';

/** How the feed reads the database. Every control plane reads the same there. */
export interface ChangeFeedDeps {
  readonly logger: Logger;
  readonly readPosition: () => Promise<Position>;
  readonly readChanges: (after: bigint, limit: number) => Promise<readonly RecordedChange[]>;
  /** Those of the policies that are not deleted. */
  readonly readPolicies: (
    ids: readonly string[],
  ) => Promise<readonly MessageInitShape<typeof PolicySchema>[]>;
  readonly readSnapshot: () => Promise<MessageInitShape<typeof SnapshotSchema>>;
}

/** A proxy that missed more changes gets a snapshot. */
export const MAX_CHANGES = 10_000;

/** The settings of policies that are read and sent at most; for the others, proxies read their keys again. */
const MAX_POLICIES = 100;
const MAX_POLICY_BYTES = 1024 * 1024;

/**
 * The committed changes that this control plane has read, in order. States: empty → following. Another history of the
 * database, or a gap in the changes, empties it: its proxies then start again from a snapshot.
 */
export class ChangeFeed {
  readonly #deps: ChangeFeedDeps;
  #tableBytes = 0;
  #position: Position | undefined;
  /** Contiguous, up to the position. */
  #changes: RecordedChange[] = [];
  #tables: Snapshot | undefined;
  /** The settings, as of the position, of policies that changed lately; the latest changed last. */
  readonly #policies = new Map<string, { readonly policy: Policy; readonly bytes: number }>();
  /** Deltas up to the position, by their first revision: most proxies need the same one. */
  #deltas = new Map<bigint, Delta>();

  constructor(deps: ChangeFeedDeps) {
    this.#deps = deps;
  }

  /** The position up to which it has read; undefined before the first `advance`. */
  get position(): Position | undefined {
    return this.#position;
  }

  /** The bytes of what it sends besides keys and policies; 0 before it was read. */
  get tableBytes(): number {
    return this.#tableBytes;
  }

  /** Reads new changes; resolves with whether there were any. Rejects if the database can't be read. */
  async advance(): Promise<boolean> {
    const { logger, readPosition, readChanges } = this.#deps;
    const before = this.#position;
    const now = await readPosition();
    if (!before || !isContinued(before, now)) {
      if (before) logger.warn('the database was restored or failed over; proxies get a snapshot');
      await this.#reset(now);
      return true;
    }
    if (now.revision === before.revision) return false;
    const newChanges = await readChanges(before.revision, MAX_CHANGES);
    if (!isContiguous(before.revision, newChanges)) {
      logger.warn({ from: String(before.revision) }, 'changes are missing; proxies get a snapshot');
      await this.#reset(now);
      return true;
    }
    // Read before the position moves: a delta never comes with tables that are older than its changes.
    if (newChanges.some(({ kind }) => changesTables(kind))) {
      this.#tables = undefined;
      await this.#readTables();
    }
    await this.#readPolicies(changedIds(newChanges, 'policy'));
    this.#changes = [...this.#changes, ...newChanges].slice(-MAX_CHANGES);
    this.#deltas = new Map();
    this.#position = { ...before, revision: newChanges.at(-1)?.revision ?? before.revision };
    return true;
  }

  /** The changes after a revision of the same history; undefined if the feed does not have all of them. */
  deltaAfter(revision: bigint): Delta | undefined {
    const position = this.#position;
    if (!position || revision > position.revision) return undefined;
    const oldest = this.#changes[0]?.revision ?? position.revision + 1n;
    if (revision + 1n < oldest) return undefined;
    const cached = this.#deltas.get(revision);
    if (cached) return cached;
    const missed = this.#changes.filter((change) => change.revision > revision);
    const delta = deltaOf(
      missed,
      { from: revision, to: position.revision },
      { tables: this.#tables, policyOf: (id) => this.#policies.get(id)?.policy },
    );
    this.#deltas.set(revision, delta);
    return delta;
  }

  /** Everything that a proxy needs besides keys, with the position it was read at. */
  async snapshot(): Promise<Snapshot> {
    const tables = await this.#readTables();
    if (!this.#position) throw new Error('the change feed has no position: call advance first');
    const { databaseSystemId, timeline, revision } = this.#position;
    const position = create(PositionSchema, { databaseSystemId, timeline, revision });
    return { ...tables, revision, position };
  }

  async #reset(position: Position): Promise<void> {
    this.#position = position;
    this.#changes = [];
    this.#tables = undefined;
    this.#policies.clear();
    this.#deltas = new Map();
    await this.#readTables();
  }

  /** As the tables, read before the position moves. */
  async #readPolicies(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    for (const id of ids) this.#policies.delete(id);
    for (const row of await this.#deps.readPolicies(ids.slice(-MAX_POLICIES))) {
      const policy = create(PolicySchema, row);
      this.#policies.set(policy.id, { policy, bytes: toBinary(PolicySchema, policy).length });
    }
    let bytes = 0;
    for (const [id, one] of [...this.#policies].reverse()) {
      bytes += one.bytes;
      if (bytes > MAX_POLICY_BYTES) this.#policies.delete(id);
    }
  }

  async #readTables(): Promise<Snapshot> {
    if (this.#tables) return this.#tables;
    const tables = create(SnapshotSchema, await this.#deps.readSnapshot());
    this.#tables = tables;
    this.#tableBytes = toBinary(SnapshotSchema, tables).length;
    if (this.#tableBytes > MAX_TABLE_BYTES) {
      const bytes = { tableBytes: this.#tableBytes, maxTableBytes: MAX_TABLE_BYTES };
      this.#deps.logger.error(
        bytes,
        'the models, connectors, profiles and aliases are too large for proxies; delete or disable some',
      );
    }
    return tables;
  }
}

function isContinued(before: Position, now: Position): boolean {
  return (
    before.databaseSystemId === now.databaseSystemId &&
    before.timeline === now.timeline &&
    before.revision <= now.revision
  );
}

function isContiguous(after: bigint, changes: readonly RecordedChange[]): boolean {
  return (
    changes.length > 0 && changes.every((change, index) => change.revision === after + BigInt(index + 1))
  );
}
