import { create } from '@bufbuild/protobuf';
import { SnapshotSchema } from '@weighbridge/contracts';
import { seededRandom } from '@weighbridge/domain';
import { routingTable, tablesOf } from '@weighbridge/state';
import { expect, it } from 'vitest';
import { orderConnectors } from './connectorOrder.ts';
import { drawOf } from './pinKey.ts';

const SEED = 20_261_120;

it('keeps the order of the others when a connector is removed', () => {
  const ids = ['a', 'b', 'c', 'd'];
  const connectors =
    routingTable(
      tablesOf(
        create(SnapshotSchema, { connectors: ids.map((id) => ({ id, provider: 'acme', weight: 1 })) }),
      ),
    ).connectors.get('acme') ?? [];
  for (let session = 0; session < 50; session++) {
    const draw = drawOf(`session-${session}`);
    const order = orderConnectors(connectors, draw).map(({ id }) => id);
    const without = orderConnectors(connectors.filter(({ id }) => id !== 'b').reverse(), draw).map(
      ({ id }) => id,
    );
    expect(without).toEqual(order.filter((id) => id !== 'b'));
  }
});

it(`orders by priority, and within one priority by weight (seed ${SEED})`, () => {
  const connectors = [
    ...(routingTable(
      tablesOf(
        create(SnapshotSchema, {
          connectors: [
            { id: 'last', provider: 'acme', priority: 2, weight: 1_000 },
            { id: 'half', provider: 'acme', priority: 1, weight: 5 },
            { id: 'third', provider: 'acme', priority: 1, weight: 3 },
            { id: 'fifth', provider: 'acme', priority: 1, weight: 2 },
          ],
        }),
      ),
    ).connectors.get('acme') ?? []),
  ];
  const random = seededRandom(SEED);
  const draws = 20_000;
  const firsts: Record<string, number> = {};
  const secondsAfterHalf: Record<string, number> = {};
  for (let at = 0; at < draws; at++) {
    const ids = orderConnectors(connectors, random).map(({ id }) => id);
    expect(ids.at(-1)).toBe('last');
    const [first = '', second = ''] = ids;
    firsts[first] = (firsts[first] ?? 0) + 1;
    if (first === 'half') secondsAfterHalf[second] = (secondsAfterHalf[second] ?? 0) + 1;
  }
  // 0.015 is four standard deviations of a share.
  expect(Math.abs((firsts.half ?? 0) / draws - 0.5)).toBeLessThan(0.015);
  expect(Math.abs((firsts.third ?? 0) / draws - 0.3)).toBeLessThan(0.015);
  expect(Math.abs((firsts.fifth ?? 0) / draws - 0.2)).toBeLessThan(0.015);
  // The second place is distributed by weight too.
  expect(Math.abs((secondsAfterHalf.third ?? 0) / (firsts.half ?? 1) - 0.6)).toBeLessThan(0.03);
});
