import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { TableRowSchema } from '@weighbridge/contracts';
import { type RecordedChange, rowKey, type SizedRow, scopeOf } from '@weighbridge/state';
import type { Position } from '../src/features/changes/changes.service.ts';
import type { ReadChanges } from '../src/features/proxies/changeFeed.ts';

type Row = NonNullable<MessageInitShape<typeof TableRowSchema>['row']>;

function sizedRow(row: Row): SizedRow {
  const message = create(TableRowSchema, { row });
  return { row: message, packed: toBinary(TableRowSchema, message) };
}

interface Dice {
  readonly below: (limit: number) => number;
  readonly chance: (probability: number) => boolean;
}

/** A state of the database. A commit makes another one, and leaves this as it is. */
interface State {
  readonly rows: ReadonlyMap<string, SizedRow>;
  readonly changes: readonly RecordedChange[];
  readonly revision: bigint;
}

/** Rows of a database that change, with how the control plane records it; and that fails over to an earlier state. */
export class SimulatedTables {
  #state: State = { rows: new Map(), changes: [], revision: 1n };
  #timeline = 1;
  /** What a replica has that lags behind. */
  #replica = this.#state;
  /** The rows at each position. */
  readonly #history = new Map<string, ReadonlyMap<string, SizedRow>>();

  constructor() {
    this.#remember();
  }

  get position(): Position {
    return { databaseSystemId: 'db', timeline: this.#timeline, revision: this.#state.revision };
  }

  /** The rows as they were. */
  rowsAt({ timeline, revision }: Position): ReadonlyMap<string, SizedRow> | undefined {
    return this.#history.get(`${timeline} ${revision}`);
  }

  readTables() {
    return { revision: this.#state.revision, rows: [...this.#state.rows.values()] };
  }

  /** Rows of connectors and models only if a change concerns them, as the control plane reads them. */
  readChanges(after: bigint, limit: number): ReadChanges {
    const changes = this.#state.changes.filter(({ revision }) => revision > after).slice(0, limit);
    const scope = scopeOf(changes);
    if (!scope) return { changes, tables: undefined };
    const rows = [...this.#state.rows.values()].filter(({ row: { row } }) => {
      if (scope === 'all' || row.case === 'profile' || row.case === 'alias') return true;
      return (row.case === 'model' || row.case === 'unservedModel') && scope.has(row.value.id);
    });
    return { changes, tables: { scope, rows } };
  }

  /** A change of one kind or another, each as its feature makes it. */
  change({ below, chance }: Dice): void {
    const rows = new Map(this.#state.rows);
    const set = (row: Row, isThere = true) => {
      const one = sizedRow(row);
      const key = rowKey(one.row);
      if (isThere) rows.set(key, one);
      else rows.delete(key);
    };
    const connectorId = `con_${below(4)}`;
    const modelId = `acme/${below(12)}`;
    const price = { version: below(1_000) };
    const upstreamName = 'x'.repeat(chance(0.1) ? 300_000 : below(100));
    const change = [
      () => {
        const isServed = chance(0.6);
        set({ case: 'model', value: { id: modelId, upstreamName, price } }, isServed);
        set({ case: 'unservedModel', value: { id: modelId } }, !isServed && chance(0.7));
        return { kind: chance(0.5) ? 'model' : 'model_price', resource_id: modelId };
      },
      () => {
        set(
          { case: 'profile', value: { id: `prf_${below(4)}`, targets: [{ model: modelId }] } },
          chance(0.7),
        );
        return { kind: 'profile', resource_id: 'prf' };
      },
      () => {
        set({ case: 'alias', value: { id: `als_${below(4)}`, target: modelId } }, chance(0.7));
        return { kind: 'alias', resource_id: 'als' };
      },
      () => {
        if (rows.has(`connector ${connectorId}`) && chance(0.5)) {
          // Edited: its prices stay.
          set({ case: 'connector', value: { id: connectorId, baseUrl: upstreamName } });
          return { kind: 'connector', resource_id: connectorId };
        }
        // With its models and prices, or with none.
        const isEnabled = chance(0.6);
        set({ case: 'connector', value: { id: connectorId, baseUrl: upstreamName } }, isEnabled);
        for (let n = 0; n < 12; n++) {
          set(
            { case: 'negotiatedPrice', value: { connectorId, modelId: `acme/${n}`, price } },
            isEnabled && chance(0.5),
          );
          if (chance(0.3)) set({ case: 'model', value: { id: `acme/${n}`, price } }, isEnabled);
        }
        return { kind: 'connector', resource_id: connectorId };
      },
      () => {
        const isKnown = rows.has(`connector ${connectorId}`);
        set({ case: 'negotiatedPrice', value: { connectorId, modelId, price } }, isKnown && chance(0.7));
        return { kind: 'connector_price', resource_id: connectorId };
      },
      () => ({ kind: 'key', resource_id: 'key_1' }),
    ][below(6)]?.();
    if (!change) throw new Error('no change');
    const revision = this.#state.revision + 1n;
    const changes = [...this.#state.changes, { ...change, revision, reach: 'own' }];
    this.#state = { rows, changes, revision };
    this.#remember();
    if (chance(0.5)) this.#replica = this.#state;
  }

  /** The replica becomes the database: commits that it lacks are lost. */
  failOver(): void {
    this.#state = this.#replica;
    this.#timeline++;
    this.#remember();
  }

  /** Deletes all but the newest changes. */
  prune(kept: number): void {
    this.#state = { ...this.#state, changes: this.#state.changes.slice(this.#state.changes.length - kept) };
  }

  #remember(): void {
    this.#history.set(`${this.#timeline} ${this.#state.revision}`, this.#state.rows);
  }
}
