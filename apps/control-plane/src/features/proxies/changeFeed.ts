import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type Delta, DeltaSchema, type Snapshot, SnapshotSchema } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { Position, RecordedChange } from '../changes/changes.service.ts';

/** What the feed reads; all of it from the database, so that any number of control planes tell the same. */
export interface ChangeFeedDeps {
  readonly logger: Logger;
  readonly readPosition: () => Promise<Position>;
  readonly readChanges: (after: bigint, limit: number) => Promise<readonly RecordedChange[]>;
  readonly readSnapshot: () => Promise<MessageInitShape<typeof SnapshotSchema>>;
}

/**
 * The sequence of committed changes, as far as this control plane has read it. States: empty → following; a history that
 * is another one than before, or a gap in it, empties it again, and whoever follows starts anew from a snapshot.
 */
export interface ChangeFeed {
  /** Reads what is new; resolves with whether something was. Rejects where the database can't be read. */
  advance(): Promise<boolean>;
  /** How far it has read; undefined before the first `advance`. */
  readonly position: Position | undefined;
  /** What came after a revision of the same history; undefined where that is no longer, or not yet, known here. */
  deltaAfter(revision: bigint): Delta | undefined;
  /** Everything, at the position that it carries. */
  snapshot(): Promise<Snapshot>;
}

/** How many changes a proxy may have missed before it gets everything anew. */
export const MAX_CHANGES = 10_000;

/** Changes of these alter keys alone; all others may alter what every proxy knows of models, connectors and profiles. */
const KEY_KINDS = new Set(['key', 'policy', 'principal']);

export function createChangeFeed(deps: ChangeFeedDeps): ChangeFeed {
  let position: Position | undefined;
  /** Contiguous, and ending at the position. */
  let changes: RecordedChange[] = [];
  let tables: Snapshot | undefined;
  /** The deltas of the position, by where they begin: most proxies are at the same place. */
  let deltas = new Map<bigint, Delta>();

  function startAnew(from: Position): void {
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
        if (position) deps.logger.warn('the database has another history than before: proxies start anew');
        startAnew(read);
        await readTables();
        return true;
      }
      if (read.revision === position.revision) return false;
      const news = await deps.readChanges(position.revision, MAX_CHANGES);
      if (!isContiguous(position.revision, news)) {
        deps.logger.warn({ from: String(position.revision) }, 'changes were missed: proxies start anew');
        startAnew(read);
        await readTables();
        return true;
      }
      // Read before anybody is told: whoever hears of the change gets tables that hold it.
      if (news.some((change) => !KEY_KINDS.has(change.kind))) {
        tables = undefined;
        await readTables();
      }
      changes = [...changes, ...news].slice(-MAX_CHANGES);
      deltas = new Map();
      position = { ...position, revision: news.at(-1)?.revision ?? position.revision };
      return true;
    },

    deltaAfter(revision) {
      if (!position || revision > position.revision) return undefined;
      const oldest = changes[0]?.revision ?? position.revision + 1n;
      if (revision + 1n < oldest) return undefined;
      const known = deltas.get(revision);
      if (known) return known;
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
      if (!position) throw new Error('a snapshot was asked for before anything was read');
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
