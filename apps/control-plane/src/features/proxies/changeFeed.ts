import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import {
  type Policy,
  PolicySchema,
  PositionSchema,
  type Snapshot,
  SnapshotSchema,
  TableRowsSchema,
  type WatchResponse,
} from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import {
  changedIds,
  changesTables,
  deltaOf,
  MAX_TABLE_BYTES,
  MAX_WHOLE_TABLE_BYTES,
  partsOf,
  type RecordedChange,
  type SizedRow,
  type TableScope,
  wholeTables,
} from '@weighbridge/state';
import type { Position } from '../changes/changes.service.ts';
import { RowVersions } from './rowVersions.ts';

/** Changes, and rows of the scope that they have, as of the last of them. */
export interface ReadChanges {
  readonly changes: readonly RecordedChange[];
  /** Undefined if the changes leave the tables alone. */
  readonly tables: { readonly scope: TableScope; readonly rows: readonly SizedRow[] } | undefined;
}

/** How the feed reads the database. Every control plane reads the same there. */
export interface ChangeFeedDeps {
  readonly logger: Logger;
  readonly readPosition: () => Promise<Position>;
  /** In one transaction. */
  readonly readChanges: (after: bigint, limit: number) => Promise<ReadChanges>;
  /** Those of the policies that are not deleted. */
  readonly readPolicies: (
    ids: readonly string[],
  ) => Promise<readonly MessageInitShape<typeof PolicySchema>[]>;
  /** All rows, in one transaction. */
  readonly readTables: () => Promise<{ readonly revision: bigint; readonly rows: readonly SizedRow[] }>;
}

/** What brings a proxy to a position: messages in this order. The last one puts the others in force. */
export interface Update {
  readonly position: Position;
  readonly messages: readonly Extract<WatchResponse['message'], { case: string }>[];
}

/** A proxy that missed more changes gets a snapshot. */
export const MAX_CHANGES = 10_000;

/** The settings of policies that are read and sent at most; for the others, proxies read their keys again. */
const MAX_POLICIES = 100;
const MAX_POLICY_BYTES = 1024 * 1024;

/**
 * The committed changes that this control plane has read, in order, and the tables as of the last of them. States: empty → following.
 * Another history of the database, or a gap in the changes, empties it: its proxies then start again from a snapshot.
 */
export class ChangeFeed {
  readonly #deps: ChangeFeedDeps;
  readonly #rows = new RowVersions();
  #position: Position | undefined;
  /** Contiguous, up to the position. */
  #changes: RecordedChange[] = [];
  /** The settings, as of the position, of policies that changed lately; the latest changed last. */
  readonly #policies = new Map<string, { readonly policy: Policy; readonly bytes: number }>();
  /** Up to the position, by the first revision and whether they have rows: most proxies need the same one. */
  #updates = new Map<string, Update>();
  /** Of all rows; undefined until a proxy needs them. */
  #whole: Snapshot | undefined;
  #parts: ReturnType<typeof partsOf> | undefined;

  constructor(deps: ChangeFeedDeps) {
    this.#deps = deps;
  }

  /** The position up to which it has read; undefined before the first `advance`. */
  get position(): Position | undefined {
    return this.#position;
  }

  /** The bytes of what it sends besides keys and policies; 0 before it was read. */
  get tableBytes(): number {
    return this.#rows.bytes;
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
    const { changes, tables } = await readChanges(before.revision, MAX_CHANGES + 1);
    // The rows are as of the last change: it must be among them.
    if (!isContiguous(before.revision, changes) || changes.length > MAX_CHANGES) {
      logger.warn({ from: String(before.revision) }, 'changes are missing; proxies get a snapshot');
      await this.#reset(now);
      return true;
    }
    // Read before the position moves: a delta never comes with settings that are older than its changes.
    await this.#readPolicies(changedIds(changes, 'policy'));
    const revision = changes.at(-1)?.revision ?? before.revision;
    if (tables && this.#rows.read(tables.rows, tables.scope, revision)) this.#tablesChanged();
    this.#changes = [...this.#changes, ...changes].slice(-MAX_CHANGES);
    this.#rows.forget((this.#changes[0]?.revision ?? 1n) - 1n);
    this.#updates = new Map();
    this.#position = { ...before, revision };
    return true;
  }

  /**
   * The changes after a revision of the same history; undefined if the feed does not have all of them. Without `takesRows`, whole
   * tables; throws an AppError if they are too large.
   */
  updateAfter(revision: bigint, { takesRows }: { readonly takesRows: boolean }): Update | undefined {
    const position = this.#position;
    if (!position || revision > position.revision) return undefined;
    const oldest = this.#changes[0]?.revision ?? position.revision + 1n;
    if (revision + 1n < oldest) return undefined;
    const name = `${revision} ${takesRows}`;
    const update = this.#updates.get(name) ?? this.#newUpdate(revision, position, takesRows);
    this.#updates.set(name, update);
    return update;
  }

  #newUpdate(from: bigint, position: Position, takesRows: boolean): Update {
    const missed = this.#changes.filter(({ revision }) => revision > from);
    const to = position.revision;
    const delta = deltaOf(missed, { from, to }, (id) => this.#policies.get(id)?.policy);
    if (takesRows) {
      const rows = partMessages(partsOf(this.#rows.changedAfter(from)));
      return { position, messages: [...rows, { case: 'delta', value: { ...delta, rowParts: rows.length } }] };
    }
    const hasTables = missed.some(({ kind }) => changesTables(kind));
    const value = hasTables ? { ...delta, tables: this.#wholeTables() } : delta;
    return { position, messages: [{ case: 'delta', value }] };
  }

  /** Everything that a proxy needs besides keys. Without `takesRows` as in `updateAfter`. */
  snapshot({ takesRows }: { readonly takesRows: boolean }): Update {
    if (!this.#position) throw new Error('the change feed has no position: call advance first');
    const position = this.#position;
    const { revision } = position;
    if (!takesRows) {
      const value = { ...this.#wholeTables(), revision, position: create(PositionSchema, position) };
      return { position, messages: [{ case: 'snapshot', value }] };
    }
    this.#parts ??= partsOf([...this.#rows.all()]);
    const rows = partMessages(this.#parts);
    const value = create(SnapshotSchema, { revision, position, rowParts: rows.length });
    return { position, messages: [...rows, { case: 'snapshot', value }] };
  }

  async #reset(now: Position): Promise<void> {
    const { revision, rows } = await this.#deps.readTables();
    this.#rows.clear();
    this.#rows.read(rows, 'all', revision);
    this.#tablesChanged();
    this.#position = { ...now, revision };
    this.#changes = [];
    this.#policies.clear();
    this.#updates = new Map();
  }

  #tablesChanged(): void {
    this.#whole = undefined;
    this.#parts = undefined;
    if (this.tableBytes <= MAX_TABLE_BYTES) return;
    this.#deps.logger.error(
      { tableBytes: this.tableBytes, maxTableBytes: MAX_TABLE_BYTES },
      'the models, connectors, profiles and aliases are too large for proxies; delete or disable some',
    );
  }

  #wholeTables(): Snapshot {
    if (this.tableBytes > MAX_WHOLE_TABLE_BYTES) throw tooLargeForRelease(this.tableBytes);
    this.#whole ??= wholeTables(this.#rows.all());
    return this.#whole;
  }

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
}

function partMessages(parts: ReturnType<typeof partsOf>): Update['messages'][number][] {
  return parts.map((rows) => ({ case: 'rows', value: create(TableRowsSchema, { rows }) }));
}

function tooLargeForRelease(bytes: number): AppError {
  return new AppError(
    'too_large',
    'tables_too_large',
    `The models, connectors, prices, profiles and aliases are ${bytes} bytes. A proxy of release 0.1.0 accepts ${MAX_WHOLE_TABLE_BYTES}: upgrade it.`,
  );
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
