import { create } from '@bufbuild/protobuf';
import { AwsIdentitySchema, SnapshotSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import type { RoutableConnector } from './connector.ts';
import { priceAt, type RoutableModel, upstreamNameAt } from './model.ts';
import { routingTable } from './routingTable.ts';
import { tablesOf } from './tables.ts';

const rates = (nano: bigint) => ({
  input: nano,
  output: nano,
  cacheRead: nano,
  cacheWrite: nano,
  cacheWrite1h: nano,
});
const table = routingTable(
  tablesOf(
    create(SnapshotSchema, {
      revision: 1n,
      connectors: [
        { id: 'second', provider: 'acme', priority: 2 },
        {
          id: 'first',
          provider: 'acme',
          priority: 1,
          models: ['acme/a*'],
          upstreamNames: { 'acme/a': 'deployment' },
          prices: {
            'acme/a': { version: 4, rates: rates(1n), tiers: [{ aboveInputTokens: 10, rates: rates(2n) }] },
            'acme/free': { version: 1, rates: rates(5n) },
            'acme/broken': { version: 1 },
          },
        },
      ],
      models: [
        { id: 'acme/a', provider: 'acme', upstreamName: 'a', price: { version: 9, rates: rates(7n) } },
        { id: 'acme/b', provider: 'acme', upstreamName: 'b', price: { version: 2, rates: rates(0n) } },
        { id: 'acme/free', provider: 'acme', upstreamName: 'free', price: { version: 2, rates: rates(0n) } },
        {
          id: 'acme/broken',
          provider: 'acme',
          upstreamName: 'constructor',
          price: { version: 2, rates: rates(3n) },
        },
      ],
    }),
  ),
);
const [first, second] = table.connectors.get('acme') as [RoutableConnector, RoutableConnector];
const model = (id: string) => table.models.get(id) as RoutableModel;

describe('at each connector', () => {
  it("a model has the negotiated price, else the catalog's", () => {
    expect([first.id, second.id]).toEqual(['first', 'second']);
    expect(priceAt(model('acme/a'), first)).toMatchObject({
      source: 'connector',
      price: { version: 4, input: 1n, tiers: [{ aboveInputTokens: 10, input: 2n }] },
    });
    expect(priceAt(model('acme/a'), second)).toMatchObject({
      source: 'catalog',
      price: { version: 9, input: 7n },
    });
    // A price without rates is none: it is never zero.
    expect(priceAt(model('acme/broken'), first)).toMatchObject({ source: 'catalog', price: { input: 3n } });
  });

  it("a model has the account's name for it", () => {
    expect(upstreamNameAt(model('acme/a'), first)).toBe('deployment');
    expect(upstreamNameAt(model('acme/a'), second)).toBe('a');
    expect(upstreamNameAt({ ...model('acme/b'), id: 'constructor' }, first)).toBe('b');
  });

  it('the models that match its patterns are served, or all where it has none', () => {
    expect(['acme/a', 'acme/b'].map(first.serves)).toEqual([true, false]);
    expect(['acme/a', 'acme/b'].map(second.serves)).toEqual([true, true]);
  });
});

it('a model costs what it costs in the region of the connector', () => {
  const [gov, eu] = ['us-gov-west-1', 'eu-central-1'].map((region) => ({
    case: 'aws' as const,
    value: create(AwsIdentitySchema, { region }),
  }));
  const at = (geography: string, nano: bigint) => ({ geography, rates: rates(nano) });
  const variants = [at('us-gov-west-1', 12n), at('regional', 11n)];
  const { models, connectors } = routingTable(
    tablesOf(
      create(SnapshotSchema, {
        revision: 1n,
        connectors: [
          { id: 'gov', provider: 'bedrock', priority: 1, ...(gov && { identity: gov }) },
          { id: 'eu', provider: 'bedrock', priority: 2, ...(eu && { identity: eu }) },
          { id: 'key', provider: 'bedrock', priority: 3 },
        ],
        models: [
          { id: 'bedrock/a', provider: 'bedrock', upstreamName: 'a', price: { rates: rates(10n), variants } },
        ],
      }),
    ),
  );
  const prices = connectors
    .get('bedrock')
    ?.map((connector) => priceAt(models.get('bedrock/a') as RoutableModel, connector));
  expect(prices).toMatchObject([
    { source: 'catalog', price: { input: 12n, variants: [] } },
    { source: 'catalog', price: { input: 11n, variants: [] } },
    { source: 'catalog', price: { input: 10n, variants: [{ input: 12n }, { input: 11n }] } },
  ]);
});

it('a model is free only where it is free at every connector, since an exhausted budget must stop the others', () => {
  expect(['acme/a', 'acme/b', 'acme/free'].map((id) => model(id).free)).toEqual([false, true, false]);
});

it('an unchanged connector stays the same object', () => {
  const snapshot = (credential: string) =>
    create(SnapshotSchema, {
      revision: 2n,
      connectors: [
        { id: 'same', provider: 'acme', maxParallel: 3, upstreamNames: { 'acme/a': 'x' } },
        { id: 'changed', provider: 'acme', priority: 1, credential },
      ],
    });
  const before = routingTable(tablesOf(snapshot('old')));
  const after = routingTable(tablesOf(snapshot('new')), before);
  const [same, changed] = before.connectors.get('acme') ?? [];
  const [sameAfter, changedAfter] = after.connectors.get('acme') ?? [];
  expect(sameAfter).toBe(same);
  expect(changedAfter).not.toBe(changed);
  expect(changedAfter?.credential).toBe('new');
});
