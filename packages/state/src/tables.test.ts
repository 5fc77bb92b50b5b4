import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { SnapshotSchema, type TableRow, TableRowSchema } from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { priceAt } from './model.ts';
import { type RoutingTable, routingTable } from './routingTable.ts';
import { NO_TABLES, type Tables, tablesOf, withRows } from './tables.ts';

type Row = NonNullable<MessageInitShape<typeof TableRowSchema>['row']>;

const SEEDS = 20;
const STEPS = 60;
const PROVIDERS = ['acme', 'bedrock', 'other'];
const NAMES = ['a', 'b', 'c', 'claude-x-v1:0', 'd', 'e'];

const row = (one: Row, isDeleted = false): TableRow => create(TableRowSchema, { row: one, isDeleted });

function dice(seed: number) {
  const next = seededRandom(seed);
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    below,
    one: <T>(from: readonly T[]) => from[below(from.length)] as T,
    chance: (p: number) => next() < p,
  };
}
type Dice = ReturnType<typeof dice>;

const ratesOf = (nano: number) => ({
  input: BigInt(nano),
  output: BigInt(2 * nano),
  inputAudio: BigInt(nano * 1_000_000),
});

/** Often cheap; sometimes the dearest of all in one respect, which other models are charged by. */
function anyPrice({ below, chance }: Dice) {
  const nano = below(5);
  return {
    version: below(9),
    ...(chance(0.9) && { rates: ratesOf(chance(0.1) ? below(1_000_000) : nano) }),
    variants: chance(0.2) ? [{ serviceTier: 'priority', rates: ratesOf(nano * below(9)) }] : [],
    toolPrices: chance(0.2) ? { web_search: BigInt(below(90_000_000)) } : {},
  };
}

/** Any change of one row: a new one, an edit, or its end. */
function anyRow(random: Dice, tables: Tables): TableRow {
  const { below, one, chance } = random;
  const provider = one(PROVIDERS);
  const id = `${provider}/${one(NAMES)}`;
  const isDeleted = chance(0.3);
  const named = { id, otherNames: chance(0.5) ? [one(NAMES), 'dated'] : [], own: chance(0.5) };
  const connectorId = `con_${below(5)}`;
  switch (below(6)) {
    case 0: {
      const identity =
        provider === 'bedrock' && chance(0.5)
          ? { case: 'aws' as const, value: { region: one(['eu', 'us']) } }
          : { case: undefined };
      const models = chance(0.3) ? [`${provider}/a*`] : [];
      return row(
        { case: 'connector', value: { id: connectorId, provider, models, identity, priority: below(2) } },
        isDeleted,
      );
    }
    case 1:
      // Of a connector that there is, as a control plane sends it.
      if (!isDeleted && !tables.connectors.has(connectorId)) return anyRow(random, tables);
      return row(
        { case: 'negotiatedPrice', value: { connectorId, modelId: id, price: anyPrice(random) } },
        isDeleted,
      );
    case 2:
      return row({ case: 'unservedModel', value: named }, isDeleted);
    case 3: {
      // No two have one name.
      const n = below(4);
      const profile = { id: `prf_${n}`, name: `p${n}`, targets: [{ model: id }] };
      return row({ case: 'profile', value: profile }, isDeleted);
    }
    case 4: {
      const n = below(4);
      const alias = { id: `als_${n}`, name: ['a', 'e', 'x*', 'dated'][n] ?? '', target: id };
      return row({ case: 'alias', value: alias }, isDeleted);
    }
    default:
      return row(
        { case: 'model', value: { ...named, provider, upstreamName: one(NAMES), price: anyPrice(random) } },
        isDeleted,
      );
  }
}

/** Everything that a request can learn of a table. */
function seen(table: RoutingTable) {
  const models = [...table.models.values()].sort((a, b) => (a.id < b.id ? -1 : 1));
  return {
    models,
    dearest: table.dearest,
    connectors: PROVIDERS.map((provider) =>
      (table.connectors.get(provider) ?? []).map(({ serves, ...connector }) => {
        const at = { ...connector, serves };
        return {
          ...connector,
          serves: models.filter(({ id }) => serves(id)).map((model) => [model.id, priceAt(model, at)]),
        };
      }),
    ),
    profiles: [...table.profiles].sort(([a], [b]) => (a < b ? -1 : 1)),
    names: [...NAMES, 'dated', 'x1', 'claude-x', ...PROVIDERS.map((one) => `${one}/dated`)].map((name) => [
      table.names.resolve(name, []),
      table.unserved(name),
    ]),
  };
}

/** As a message with all rows has them, in another order. */
function asMessage(tables: Tables): Tables {
  const lists = Object.entries(tables).map(([kind, rows]) => [kind, [...rows.values()].reverse()]);
  return tablesOf(create(SnapshotSchema, Object.fromEntries(lists)));
}

describe('rows', () => {
  it('that are applied one after another give the same table as all of them at once', () => {
    let kept = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const random = dice(seed);
      let tables = NO_TABLES;
      let table: RoutingTable | undefined;
      for (let step = 0; step < STEPS; step++) {
        const rows = Array.from({ length: 1 + random.below(3) }, () => anyRow(random, tables));
        const inOrder = [...rows].sort(
          (a, b) => Number(a.row.case === 'negotiatedPrice') - Number(b.row.case === 'negotiatedPrice'),
        );
        try {
          tables = withRows(tables, inOrder);
        } catch (error) {
          // A connector and its new price went in the same step.
          expect(String(error)).toContain('which is unknown');
          continue;
        }
        const before = table;
        table = routingTable(tables, before);
        kept += [...table.models].filter(([id, model]) => before?.models.get(id) === model).length;
        expect([seed, step, seen(table)]).toEqual([seed, step, seen(routingTable(asMessage(tables)))]);
      }
    }
    // Most were not prepared again.
    expect(kept).toBeGreaterThan(SEEDS * STEPS);
  });

  it('leave the tables that they were applied to as they were', () => {
    const before = withRows(NO_TABLES, [row({ case: 'connector', value: { id: 'con_1' } })]);
    const priced = withRows(before, [
      row({ case: 'negotiatedPrice', value: { connectorId: 'con_1', modelId: 'a/x', price: {} } }),
    ]);
    withRows(priced, [
      row({ case: 'negotiatedPrice', value: { connectorId: 'con_1', modelId: 'a/x' } }, true),
    ]);
    const renamed = withRows(priced, [row({ case: 'connector', value: { id: 'con_1', baseUrl: 'new' } })]);
    const pricesOf = (tables: Tables) => Object.keys(tables.connectors.get('con_1')?.prices ?? {});
    expect([before, priced, renamed].map(pricesOf)).toEqual([[], ['a/x'], ['a/x']]);
    expect(withRows(renamed, [])).toBe(renamed);
  });

  it('of one model with another price leave every other model and connector, and all names, as objects', () => {
    const models = Array.from({ length: 500 }, (_, n) =>
      row({ case: 'model', value: { id: `acme/${n}`, provider: 'acme', price: { rates: ratesOf(1) } } }),
    );
    const tables = withRows(NO_TABLES, [
      row({ case: 'connector', value: { id: 'con_1', provider: 'acme' } }),
      ...models,
    ]);
    const before = routingTable(tables);
    const changed = row({
      case: 'model',
      value: { id: 'acme/7', provider: 'acme', price: { rates: ratesOf(2) } },
    });
    const after = routingTable(withRows(tables, [changed]), before);
    const same = [...after.models].filter(([id, model]) => before.models.get(id) === model);
    expect([same.length, after.models.get('acme/7')?.price.input]).toEqual([499, 2n]);
    expect([after.names, after.connectors, after.unserved, after.profiles]).toEqual([
      before.names,
      before.connectors,
      before.unserved,
      before.profiles,
    ]);
    expect(after.names).toBe(before.names);
    expect(after.connectors).toBe(before.connectors);
  });
});
