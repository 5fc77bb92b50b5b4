import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type Delta, DeltaSchema, type Snapshot, SnapshotSchema } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { Position, RecordedChange } from '../changes/changes.service.ts';

/** How the feed reads the database. Every control plane reads the same there. */
export interface ChangeFeedDeps {
  readonly logger: Logger;
  readonly readPosition: () => Promise<Position>;
  readonly readChanges: (after: bigint, limit: number) => Promise<readonly RecordedChange[]>;
  readonly readSnapshot: () => Promise<MessageInitShape<typeof SnapshotSchema>>;
}

/**
 * The committed changes that this control plane has read, in order. States: empty → following. Another history of the
 * database, or a gap in the changes, empties it: its proxies then start again from a snapshot.
 */
export interface ChangeFeed {
  /** Reads new changes; resolves with whether there were any. Rejects if the database can't be read. */
  advance(): Promise<boolean>;
  /** The position up to which it has read; undefined before the first `advance`. */
  readonly position: Position | undefined;
  /** The changes after a revision of the same history; undefined if the feed does not have all of them. */
  deltaAfter(revision: bigint): Delta | undefined;
  /** Everything that a proxy needs besides keys, with the position it was read at. */
  snapshot(): Promise<Snapshot>;
}

/** A proxy that missed more changes gets a snapshot. */
export const MAX_CHANGES = 10_000;

/** Changes of these kinds affect only keys. All others may affect the models, connectors and profiles of every proxy. */
const KEY_KINDS = new Set(['key', 'policy', 'principal']);

export function createChangeFeed(deps: ChangeFeedDeps): ChangeFeed {
  let position: Position | undefined;
  /** Contiguous, up to the position. */
  let changes: RecordedChange[] = [];
  let tables: Snapshot | undefined;
  /** Deltas up to the position, by their first revision: most proxies need the same one. */
  let deltas = new Map<bigint, Delta>();

  function reset(from: Position): void {
    position = from;
    changes = [];
    tables = undefined;
    deltas = new Map();
  }

  async function readTables(): Promise<Snapshot> {
    tables ??= create(SnapshotSchema, await deps.readSnapshot());
    return tables;
  }

  return {
    get position() {
      return position;
    },

    async advance() {
      const read = await deps.readPosition();
      if (!position || !isContinued(position, read)) {
        if (position) deps.logger.warn('the database has another history; proxies get a snapshot');
        reset(read);
        await readTables();
        return true;
      }
      if (read.revision === position.revision) return false;
      const newChanges = await deps.readChanges(position.revision, MAX_CHANGES);
      if (!isContiguous(position.revision, newChanges)) {
        deps.logger.warn({ from: String(position.revision) }, 'changes are missing; proxies get a snapshot');
        reset(read);
        await readTables();
        return true;
      }
      // Read before the position moves: a delta never comes with tables that are older than its changes.
      if (newChanges.some((change) => !KEY_KINDS.has(change.kind))) {
        tables = undefined;
        await readTables();
      }
      changes = [...changes, ...newChanges].slice(-MAX_CHANGES);
      deltas = new Map();
      position = { ...position, revision: newChanges.at(-1)?.revision ?? position.revision };
      return true;
    },

    deltaAfter(revision) {
      if (!position || revision > position.revision) return undefined;
      const oldest = changes[0]?.revision ?? position.revision + 1n;
      if (revision + 1n < oldest) return undefined;
      const cached = deltas.get(revision);
      if (cached) return cached;
      const missed = changes.filter((change) => change.revision > revision);
      const delta = create(DeltaSchema, {
        fromRevision: revision,
        toRevision: position.revision,
        keyIds: idsOf(missed, 'key'),
        policyIds: idsOf(missed, 'policy'),
        principalIds: idsOf(missed, 'principal'),
        allKeys: missed.some((change) => change.reach === 'all'),
        ...(tables && missed.some((change) => !KEY_KINDS.has(change.kind)) && { tables }),
      });
      deltas.set(revision, delta);
      return delta;
    },

    async snapshot() {
      const { connectors, models, profiles } = await readTables();
      if (!position) throw new Error('the change feed has no position: call advance first');
      const { databaseSystemId, timeline, revision } = position;
      return create(SnapshotSchema, {
        revision,
        connectors,
        models,
        profiles,
        position: { databaseSystemId, timeline, revision },
      });
    },
  };
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

function idsOf(changes: readonly RecordedChange[], kind: string): string[] {
  return [...new Set(changes.filter((change) => change.kind === kind).map((change) => change.resource_id))];
}
