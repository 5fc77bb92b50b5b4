import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf';
import { type TableRow, TableRowSchema, WatchResponseSchema } from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import {
  MAX_TABLE_BYTES,
  MAX_WHOLE_TABLE_BYTES,
  type RecordedChange,
  type SizedRow,
  scopeOf,
} from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import type { Position } from '../changes/changes.service.ts';
import { ChangeFeed, MAX_CHANGES, type Update } from './changeFeed.ts';

type Row = NonNullable<MessageInitShape<typeof TableRowSchema>['row']>;

function sized(row: Row): SizedRow {
  const message = create(TableRowSchema, { row });
  return { row: message, packed: toBinary(TableRowSchema, message) };
}

/** A feed on a database that the test fills. */
function feedOnDatabase() {
  const state = {
    position: { databaseSystemId: 'db', timeline: 1, revision: 10n } as Position,
    changes: [] as RecordedChange[],
    /** What the feed read of tables. */
    reads: [] as unknown[],
    policies: new Map<string, { id: string; settings: { allowedModels: string[] } }>(),
    /** The policies that were read at once. */
    policyReads: [] as (readonly string[])[],
    rows: [] as Row[],
    commit(kind: string, resource_id: string, reach = 'own') {
      const revision = state.position.revision + 1n;
      state.changes.push({ revision, kind, resource_id, reach });
      state.position = { ...state.position, revision };
    },
  };
  const logger = createLogger('test');
  logger.level = 'silent';
  const read = (scope: unknown) => {
    state.reads.push(scope);
    return state.rows.map(sized);
  };
  const feed = new ChangeFeed({
    logger,
    readPosition: async () => state.position,
    readChanges: async (after, limit) => {
      const changes = state.changes.filter(({ revision }) => revision > after).slice(0, limit);
      const scope = scopeOf(changes);
      return { changes, tables: scope && { scope, rows: read(scope) } };
    },
    readPolicies: async (ids) => {
      state.policyReads.push(ids);
      return ids.flatMap((id) => state.policies.get(id) ?? []);
    },
    readTables: async () => ({ revision: state.position.revision, rows: read('all') }),
  });
  const messagesAfter = (revision: bigint, takesRows = true) =>
    feed.updateAfter(revision, { takesRows })?.messages ?? [];
  const deltaAfter = (revision: bigint) => {
    const last = messagesAfter(revision).at(-1);
    return last?.case === 'delta' ? last.value : undefined;
  };
  /** The rows after a revision, by what they are called. */
  const rowsAfter = (revision: bigint) => rowsOf(messagesAfter(revision));
  return { state, feed, messagesAfter, deltaAfter, rowsAfter };
}

function rowsOf(messages: Update['messages']): (TableRow['row']['value'] | string)[] {
  return messages.flatMap((message) =>
    message.case === 'rows'
      ? message.value.rows.map(({ row, isDeleted }) => (isDeleted ? `no ${rowName(row)}` : row.value))
      : [],
  );
}

function rowName(row: TableRow['row']): string {
  return row.case === 'negotiatedPrice' ? row.value.modelId : String(row.value?.id);
}

const model = (id: string, upstreamName = '') => ({ case: 'model' as const, value: { id, upstreamName } });

describe('the change feed', () => {
  it('gives the changes after any revision that it has read, each resource once', async () => {
    const { state, feed, deltaAfter } = feedOnDatabase();
    await feed.advance();
    state.commit('key', 'key_1');
    state.commit('policy', 'pol_1');
    state.commit('key', 'key_1');
    expect(await feed.advance()).toBe(true);
    expect(await feed.advance()).toBe(false);
    expect(deltaAfter(10n)).toMatchObject({
      fromRevision: 10n,
      toRevision: 13n,
      keyIds: ['key_1'],
      policyIds: ['pol_1'],
      allKeys: false,
    });
    expect(deltaAfter(12n)).toMatchObject({ keyIds: ['key_1'], policyIds: [] });
    expect(deltaAfter(13n)).toMatchObject({ fromRevision: 13n, toRevision: 13n, keyIds: [] });
    expect([deltaAfter(9n), deltaAfter(14n)]).toEqual([undefined, undefined]);
  });

  it('sends the settings of changed policies, as they are now, and none of one that is deleted', async () => {
    const { state, feed, deltaAfter } = feedOnDatabase();
    await feed.advance();
    const set = (id: string, allowedModels: string[]) => {
      state.policies.set(id, { id, settings: { allowedModels } });
      state.commit('policy', id);
    };
    set('pol_1', ['a']);
    set('pol_2', ['a']);
    await feed.advance();
    set('pol_1', ['b']);
    state.policies.delete('pol_2');
    state.commit('policy', 'pol_2');
    await feed.advance();
    expect(deltaAfter(10n)).toMatchObject({
      policyIds: ['pol_1', 'pol_2'],
      policies: [{ id: 'pol_1', settings: { allowedModels: ['b'] } }],
    });
  });

  it('bounds the settings that it reads and sends: of further policies only the ids', async () => {
    const { state, feed, deltaAfter } = feedOnDatabase();
    await feed.advance();
    for (let n = 0; n < 300; n++) {
      state.policies.set(`pol_${n}`, { id: `pol_${n}`, settings: { allowedModels: ['x'.repeat(20_000)] } });
      state.commit('policy', `pol_${n}`);
    }
    await feed.advance();
    const delta = deltaAfter(10n);
    expect(state.policyReads.map((ids) => ids.length)).toEqual([100]);
    expect(delta?.policyIds.length).toBe(300);
    // Of 20 kB each: the latest, up to 1 MiB.
    expect(delta?.policies.map(({ id }) => id)).toEqual(
      Array.from({ length: 52 }, (_, n) => `pol_${248 + n}`),
    );
  });

  it('sends the rows that differ after a change, and none after a change of keys', async () => {
    const { state, feed, rowsAfter } = feedOnDatabase();
    state.rows = [
      { case: 'connector', value: { id: 'con_1' } },
      { case: 'negotiatedPrice', value: { connectorId: 'con_1', modelId: 'a/x', price: { version: 1 } } },
      model('a/x'),
      model('a/y'),
    ];
    await feed.advance();
    state.commit('key', 'key_1');
    await feed.advance();
    expect([rowsAfter(10n), state.reads]).toEqual([[], ['all']]);
    state.rows[1] = {
      case: 'negotiatedPrice',
      value: { connectorId: 'con_1', modelId: 'a/x', price: { version: 2 } },
    };
    state.commit('connector_price', 'con_1');
    await feed.advance();
    expect(rowsAfter(10n)).toMatchObject([{ modelId: 'a/x', price: { version: 2 } }]);
    state.rows = [model('a/x', 'new'), { case: 'connector', value: { id: 'con_1' } }];
    state.commit('connector', 'con_1');
    await feed.advance();
    expect(rowsAfter(12n)).toMatchObject([{ id: 'a/x', upstreamName: 'new' }, 'no a/y', 'no a/x']);
    expect(rowsAfter(11n)).toHaveLength(3);
    expect(rowsAfter(13n)).toEqual([]);
  });

  it('reads one model after a change of its price, and takes no other row for gone', async () => {
    const { state, feed, rowsAfter } = feedOnDatabase();
    state.rows = [model('a/x'), model('a/y'), { case: 'connector', value: { id: 'con_1' } }];
    await feed.advance();
    state.rows = [model('a/y', 'new')];
    state.commit('model_price', 'a/y');
    state.commit('profile', 'prf_1');
    await feed.advance();
    expect(state.reads).toEqual(['all', new Set(['a/y'])]);
    expect(rowsAfter(10n)).toMatchObject([{ id: 'a/y', upstreamName: 'new' }]);
    state.rows = [];
    state.commit('model', 'a/y');
    await feed.advance();
    expect(rowsAfter(10n)).toEqual(['no a/y']);
  });

  it('sends whole tables to a proxy that takes no rows, or says that they are too large for it', async () => {
    const { state, feed, messagesAfter } = feedOnDatabase();
    state.rows = [
      { case: 'negotiatedPrice', value: { connectorId: 'con_1', modelId: 'a/x', price: { version: 2 } } },
      { case: 'connector', value: { id: 'con_2', priority: 2 } },
      { case: 'connector', value: { id: 'con_1', priority: 1 } },
      model('a/x'),
      { case: 'unservedModel', value: { id: 'a/y' } },
      { case: 'profile', value: { id: 'prf_1' } },
      { case: 'alias', value: { id: 'als_1' } },
    ];
    const whole = {
      connectors: [{ id: 'con_1', prices: { 'a/x': { version: 2 } } }, { id: 'con_2' }],
      models: [{ id: 'a/x' }],
      unservedModels: [{ id: 'a/y' }],
      profiles: [{ id: 'prf_1' }],
      aliases: [{ id: 'als_1' }],
    };
    await feed.advance();
    state.commit('key', 'key_1');
    state.commit('alias', 'als_1');
    await feed.advance();
    expect(messagesAfter(10n, false)).toMatchObject([
      { case: 'delta', value: { tables: whole, rowParts: 0 } },
    ]);
    expect(feed.snapshot({ takesRows: false }).messages).toMatchObject([
      { case: 'snapshot', value: { ...whole, rowParts: 0, position: state.position } },
    ]);
    state.rows.push(model('a/large', 'x'.repeat(MAX_WHOLE_TABLE_BYTES)));
    state.commit('catalog', 'catalog');
    await feed.advance();
    expect(() => messagesAfter(10n, false)).toThrow('A proxy of release 0.1.0 accepts 14680064: upgrade it.');
    expect(() => feed.snapshot({ takesRows: false })).toThrow('upgrade');
    expect(messagesAfter(10n)).toHaveLength(2);
    // A change of keys alone.
    state.commit('key', 'key_2');
    await feed.advance();
    expect(messagesAfter(13n, false)).toMatchObject([{ case: 'delta', value: { keyIds: ['key_2'] } }]);
  });

  it('sends tables up to their bound in messages that a proxy accepts', async () => {
    const { state, feed } = feedOnDatabase();
    const rowBytes = 20_000;
    const count = Math.floor(MAX_TABLE_BYTES / rowBytes);
    state.rows = Array.from({ length: count }, (_, n) => model(`a/${n}`, 'x'.repeat(rowBytes - 50)));
    await feed.advance();
    const { messages } = feed.snapshot({ takesRows: true });
    expect(rowsOf(messages)).toHaveLength(count);
    const sizes = messages.map(
      (message) => toBinary(WatchResponseSchema, create(WatchResponseSchema, { message })).length,
    );
    expect(Math.max(...sizes)).toBeLessThan(300_000);
    expect(messages.at(-1)).toMatchObject({
      case: 'snapshot',
      value: { rowParts: messages.length - 1, models: [] },
    });
  });

  it('drops all keys after a change of a default policy', async () => {
    const { state, feed, deltaAfter } = feedOnDatabase();
    await feed.advance();
    state.commit('policy', 'pol_1', 'all');
    await feed.advance();
    expect(deltaAfter(10n)?.allKeys).toBe(true);
  });

  it.each<[string, (state: ReturnType<typeof feedOnDatabase>['state']) => void]>([
    [
      'a failover',
      (state) => {
        state.position = { ...state.position, timeline: 2 };
      },
    ],
    [
      'a restore',
      (state) => {
        state.position = { ...state.position, revision: 5n };
      },
    ],
    [
      'another database',
      (state) => {
        state.position = { ...state.position, databaseSystemId: 'other' };
      },
    ],
    [
      'changes that were compacted',
      (state) => {
        state.position = { ...state.position, revision: 99n };
      },
    ],
  ])('resets after %s: no delta starts from an earlier revision', async (_what, happen) => {
    const { state, feed, deltaAfter } = feedOnDatabase();
    await feed.advance();
    state.commit('key', 'key_1');
    await feed.advance();
    happen(state);
    expect(await feed.advance()).toBe(true);
    expect(deltaAfter(10n)).toBeUndefined();
    expect(feed.position).toEqual(state.position);
  });

  it('keeps at most MAX_CHANGES changes: a proxy that missed more gets a snapshot', async () => {
    const { state, feed, deltaAfter } = feedOnDatabase();
    await feed.advance();
    for (let change = 0; change < MAX_CHANGES; change++) state.commit('key', `key_${change}`);
    await feed.advance();
    state.commit('key', 'key_last');
    await feed.advance();
    expect(deltaAfter(10n)).toBeUndefined();
    expect(deltaAfter(11n)).toMatchObject({ keyIds: { length: MAX_CHANGES } });
    // More at once: the feed itself missed them.
    for (let change = 0; change <= MAX_CHANGES; change++) state.commit('key', `key_${change}`);
    await feed.advance();
    expect([deltaAfter(state.position.revision - 1n), feed.position]).toEqual([undefined, state.position]);
  });
});
