import { CLASS_NAMES, modelPriceOf, type Price, priceDocument, TOKEN_CLASSES } from '@weighbridge/domain';
import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { anyPrice } from '../../../../../packages/domain/test/anyPrice.ts';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { findPriceVersion as findNegotiated, insertPrice } from '../connectors/connectorPrices.repository.ts';
import { findPriceVersion, insertPriceVersion } from './catalog.repository.ts';

/** What releases with columns and releases with documents read of what the other one writes, beside each other. */

const MODEL = 'acme/large';
let api: TestApi;
let connector: string;
let columns: ReadonlySet<string>;
beforeAll(async () => {
  api = await startTestApi();
  const usd = { currency_code: 'USD', units: 1, nanos: 0 };
  const price = { input_price: usd, output_price: usd };
  await api.call('PUT', `/catalog/models/${MODEL}`, { body: { context_window: 1_000, price } });
  const body = { name: 'acme', provider: 'acme', dialect: 'openai', base_url: 'https://acme.test/v1' };
  connector = (await api.call('POST', '/connectors', { body })).body.id as string;
  const { rows } = await sql<{ name: string }>`
    SELECT column_name AS name FROM information_schema.columns WHERE table_name = 'model_prices'`.execute(
    api.db,
  );
  columns = new Set(rows.map(({ name }) => name));
});
afterAll(() => api.close());

const RUNS = { numRuns: 30 };
const columnOf = (one: (typeof TOKEN_CLASSES)[number]) => `${CLASS_NAMES[one]}_nano_usd`;
/** A class that is younger than the columns has none: earlier releases don't know it. */
const withColumns = () => TOKEN_CLASSES.filter((one) => columns.has(columnOf(one)));

/** A price as the columns of an earlier release have it. */
function columnsOf(price: Price): Json {
  const { tiers, variants = [], tool_prices = {} } = priceDocument(price);
  const rates = withColumns().map((one) => [columnOf(one), price[one] ?? null]);
  return { ended: false, ...Object.fromEntries(rates), tiers, variants, tool_prices };
}
/** As a statement takes them. */
const values = ({ tiers, variants, tool_prices, ...rates }: Json) => ({
  ...rates,
  tiers: JSON.stringify(tiers),
  variants: JSON.stringify(variants),
  tool_prices: JSON.stringify(tool_prices),
});
const known = (price: Price): Price => {
  const { tiers, variants, toolPrices } = price;
  return {
    ...Object.fromEntries(withColumns().map((one) => [one, price[one]])),
    tiers,
    variants,
    toolPrices,
  } as Price;
};

interface Table {
  readonly name: 'model_prices' | 'connector_prices';
  /** Adds a version by this release; undefined ends the price. */
  add(price: Price | undefined): Promise<number>;
  /** The price of a version as this release reads it. */
  read(version: number): Promise<Price | undefined>;
  readonly keys: () => Json;
}
let versions = 1_000;
const withoutVersion = (row: Parameters<typeof modelPriceOf>[0] | undefined) => {
  const { version: _, ...price } = (row && modelPriceOf(row)) ?? { version: 0 };
  return 'input' in price ? (price as Price) : undefined;
};
const TABLES: readonly Table[] = [
  {
    name: 'model_prices',
    add: async (price) =>
      await api.db.transaction().execute(async (tx) => {
        const row = { modelId: MODEL, origin: 'operator', price, now: api.now } as const;
        const { version } = await insertPriceVersion(tx, row);
        versions = Math.max(versions, version);
        return version;
      }),
    read: async (version) => withoutVersion(await findPriceVersion(api.db, MODEL, version)),
    keys: () => ({ model_id: MODEL, origin: 'operator' }),
  },
  {
    name: 'connector_prices',
    add: async (price) =>
      await api.db.transaction().execute(async (tx) => {
        const row = { connectorId: connector, modelId: MODEL, version: ++versions, price, now: api.now };
        return (await insertPrice(tx, row)).version;
      }),
    read: async (version) => withoutVersion(await findNegotiated(api.db, connector, MODEL, version)),
    keys: () => ({ connector_id: connector, model_id: MODEL }),
  },
];

describe.each(TABLES)('$name', ({ name, add, read, keys }) => {
  const row = async (version: number) => {
    const found = await api.db
      .selectFrom(name as 'model_prices')
      .selectAll()
      .where('model_id', '=', MODEL)
      .where('version', '=', version)
      .executeTakeFirstOrThrow();
    return found as unknown as Json;
  };
  /** Adds a version as an earlier release does. */
  const addColumns = async (written: Json): Promise<number> => {
    const version = ++versions;
    const all = { ...keys(), version, ...values(written), created_at: api.now };
    await api.db
      .insertInto(name as 'model_prices')
      .values(all as never)
      .execute();
    return version;
  };
  const update = async (version: number, changes: Json) => {
    await api.db
      .updateTable(name as 'model_prices')
      .set(changes as never)
      .where('model_id', '=', MODEL)
      .where('version', '=', version)
      .execute();
  };

  it('an earlier release reads each class, tier, variant and tool that this one writes', async () => {
    await fc.assert(
      fc.asyncProperty(anyPrice, async (price) => {
        const version = await add(price);
        expect(await row(version)).toMatchObject(columnsOf(price));
        expect(await read(version)).toEqual(price);
      }),
      RUNS,
    );
  });

  it('this release reads each class, tier, variant and tool that an earlier one writes', async () => {
    await fc.assert(
      fc.asyncProperty(anyPrice, async (price) => {
        expect(await read(await addColumns(columnsOf(price)))).toEqual(known(price));
      }),
      RUNS,
    );
  });

  it('a change of each column is one of the document, and a change of the document one of the columns', async () => {
    await fc.assert(
      fc.asyncProperty(anyPrice, anyPrice, async (before, after) => {
        const [written, version] = [columnsOf(after), await addColumns(columnsOf(before))];
        const expected: Json = columnsOf(before);
        for (const column of Object.keys(written)) {
          await update(version, { [column]: values(written)[column as 'tiers'] });
          expected[column] = written[column];
          expect(await row(version)).toMatchObject(expected);
          expect(columnsOf((await read(version)) as Price), column).toEqual(expected);
        }
        await update(version, { price: JSON.stringify(priceDocument(before)) });
        expect(await row(version)).toMatchObject(columnsOf(before));
        expect(await read(version)).toEqual(before);
      }),
      { numRuns: 10 },
    );
  });

  it('a version that ends the price ends it in either release', async () => {
    const byThis = await add(undefined);
    const { input_nano_usd, ended, price, tiers } = await row(byThis);
    expect({ input_nano_usd, ended, price, tiers }).toEqual({
      input_nano_usd: null,
      ended: true,
      price: null,
      tiers: [],
    });
    const [any] = fc.sample(anyPrice, { numRuns: 1, seed: 79 }) as [Price];
    const none = Object.fromEntries(withColumns().map((one) => [columnOf(one), null]));
    const empty = { ended: true, ...none, tiers: [], variants: [], tool_prices: {} };
    expect(await read(await addColumns(empty))).toBeUndefined();
    const version = await add(any);
    await update(version, values(empty));
    expect(await row(version)).toMatchObject({ ...empty, price: null });
    await update(version, values(columnsOf(any)));
    expect(await read(version)).toEqual(known(any));
  });

  it('a version of before there were documents reads as its columns', async () => {
    await fc.assert(
      fc.asyncProperty(anyPrice, async (price) => {
        await sql`ALTER TABLE ${sql.table(name)} DISABLE TRIGGER sync_price_columns`.execute(api.db);
        const version = await addColumns(columnsOf(price));
        await sql`ALTER TABLE ${sql.table(name)} ENABLE TRIGGER sync_price_columns`.execute(api.db);
        expect(await row(version)).toMatchObject({ price: null });
        expect(await read(version)).toEqual(known(price));
      }),
      { numRuns: 10 },
    );
  });

  it('what a later release has in a document stays when an earlier one changes a column', async () => {
    const [price] = fc.sample(anyPrice, { numRuns: 1, seed: 79 }) as [Price];
    const version = await add(price);
    const later = { ...priceDocument(price), of_a_later_release_nano_usd: '5' };
    await update(version, { price: JSON.stringify(later) });
    await update(version, { input_nano_usd: 7n });
    expect(await row(version)).toMatchObject({
      price: { ...later, input_nano_usd: '7' },
      input_nano_usd: 7n,
    });
    expect(await read(version)).toBeUndefined();
  });

  it('refuses a document that is no object, or above 512 KiB', async () => {
    const [price] = fc.sample(anyPrice, { numRuns: 1, seed: 79 }) as [Price];
    const version = await add(price);
    const large = { ...priceDocument(price), tool_prices: { search: '1'.padStart(524_289, '0') } };
    for (const wrong of ['[]', '"x"', JSON.stringify(large)]) {
      await expect(update(version, { price: wrong }), wrong.slice(0, 20)).rejects.toThrow(
        /price_check|cannot/,
      );
    }
    expect(await read(version)).toEqual(price);
  });
});

describe('a price that only a later release can read', () => {
  const later = sql`UPDATE model_prices SET price = price || '{"of_a_later_release_nano_usd": "1"}' WHERE model_id = ${MODEL}`;
  const [any] = fc.sample(anyPrice, { numRuns: 1, seed: 79 }) as [Price];
  const served = async () => {
    const { models, connectors } = await api.snapshot();
    const { body } = await api.call('GET', '/models?page_size=500');
    return {
      listed: (body.data as Json[]).some(({ model }) => model === MODEL),
      sent: models.some(({ id }) => id === MODEL),
      negotiated: connectors.map(({ prices }) => MODEL in prices).includes(true),
    };
  };

  it('is not charged in part: the model is not served', async () => {
    await TABLES[0]?.add(any);
    await TABLES[1]?.add(undefined);
    expect(await served()).toEqual({ listed: true, sent: true, negotiated: false });
    await later.execute(api.db);
    expect(await served()).toEqual({ listed: false, sent: false, negotiated: false });
    expect((await api.call('GET', `/catalog/models/${MODEL}`)).body.price).toMatchObject({ price: null });
  });

  it("is not replaced by the catalog's where it was negotiated", async () => {
    await TABLES[0]?.add(any);
    const version = await TABLES[1]?.add(any);
    expect(await served()).toEqual({ listed: true, sent: true, negotiated: true });
    await sql`UPDATE connector_prices SET price = price || '{"of_a_later_release_nano_usd": "1"}' WHERE version = ${version}`.execute(
      api.db,
    );
    expect(await served()).toEqual({ listed: false, sent: false, negotiated: false });
  });
});
