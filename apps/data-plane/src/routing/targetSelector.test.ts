import { create } from '@bufbuild/protobuf';
import { SnapshotSchema } from '@weighbridge/contracts';
import { routingTable, tablesOf } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import type { Target } from '../control/target.ts';
import { type AttemptResult, ConnectorHealth } from '../upstream/connectorHealth.ts';
import { TargetSelector } from './targetSelector.ts';

const table = routingTable(
  tablesOf(
    create(SnapshotSchema, {
      connectors: [
        { id: 'a', provider: 'acme', priority: 1 },
        { id: 'b', provider: 'acme', priority: 2 },
        { id: 'c', provider: 'bolt', priority: 1 },
      ],
      models: ['acme/large', 'acme/small', 'bolt/large'].map((id) => ({
        id,
        provider: id.slice(0, 4),
        price: { rates: {} },
      })),
    }),
  ),
);

function target(model: string, connectorId: string): Target {
  const provider = connectorId === 'c' ? 'bolt' : 'acme';
  const found = {
    model: table.models.get(`${provider}/${model}`),
    connector: table.connectors.get(provider)?.find(({ id }) => id === connectorId),
  };
  if (!found.model || !found.connector) throw new Error('there is no such target');
  return { model: found.model, connector: found.connector };
}
const [a, b] = [target('large', 'a'), target('large', 'b')];

/** Selectors after attempts with these results. */
function world(ends: readonly [Target, AttemptResult][] = []) {
  const health = new ConnectorHealth(() => 0);
  for (const [{ connector }, result] of ends) health.begin(connector)(result);
  return { health, selector: new TargetSelector({ health, random: () => 1 }, [a, b]) };
}
const downed = (target: Target) =>
  Array.from({ length: 5 }, () => [target, 'bad'] as [Target, AttemptResult]);

describe('the target selector', () => {
  it('selects the next connector at once, and the same one again after a growing pause', () => {
    const { selector } = world();
    expect(selector.next(0, 10_000)).toEqual({ target: a, pauseMs: 0 });
    selector.recordFailure(a, 0);
    expect(selector.next(0, 10_000)).toEqual({ target: b, pauseMs: 0 });
    selector.recordFailure(b, 0);
    expect(selector.next(0, 10_000)).toEqual({ target: a, pauseMs: 100 });
    selector.recordFailure(a, 100);
    selector.recordFailure(b, 100);
    expect(selector.next(100, 10_000)).toEqual({ target: a, pauseMs: 200 });
  });

  it('waits as long as a vendor asks where that is short enough, else selects another target', () => {
    const { selector } = world();
    selector.exclude(b.connector);
    selector.recordFailure(a, 0, 1_500);
    expect(selector.next(0, 10_000)).toEqual({ target: a, pauseMs: 1_500 });
    expect(selector.next(0, 1_500)).toBeUndefined();
    selector.recordFailure(a, 0, 6_000);
    expect(selector.next(0, 60_000)).toBeUndefined();

    const { selector: other } = world(downed(b));
    other.recordFailure(a, 0, 6_000);
    expect(other.next(0, 60_000)).toEqual({ target: b, pauseMs: 0 });
  });

  it('skips open and dead connectors; where all are, it selects the least unhealthy, dead ones last', () => {
    expect(world(downed(a)).selector.next(0, 1)?.target).toBe(b);
    expect(world([[a, 'credential_rejected']]).selector.next(0, 1)?.target).toBe(b);
    expect(world([[a, 'credential_rejected'], ...downed(b)]).selector.next(0, 1)?.target).toBe(b);
    // Of two open ones, the one with the lower error ratio.
    const better: [Target, AttemptResult] = [b, 'good'];
    expect(world([...downed(a), better, ...downed(b)]).selector.next(0, 1)?.target).toBe(b);
  });

  it('selects the next model once all connectors of one failed, and never an excluded connector', () => {
    const others = [target('small', 'a'), target('small', 'b')];
    const health = new ConnectorHealth(() => 0);
    const selector = new TargetSelector({ health, random: () => 1 }, [a, b, ...others]);
    selector.recordFailure(a, 0);
    selector.recordFailure(b, 0);
    expect(selector.next(0, 10_000)).toEqual({ target: others[0], pauseMs: 0 });
    selector.exclude(a.connector);
    expect(selector.next(0, 10_000)).toEqual({ target: others[1], pauseMs: 0 });
    selector.recordFailure(target('small', 'b'), 0);
    selector.exclude(b.connector);
    expect(selector.next(0, 10_000)).toBeUndefined();
  });

  it("goes to another provider before the failed one's other accounts and models", () => {
    const [smallA, smallB, c] = [target('small', 'a'), target('small', 'b'), target('large', 'c')];
    const health = new ConnectorHealth(() => 0);
    const selector = new TargetSelector({ health, random: () => 1 }, [a, b, smallA, smallB, c]);
    const order: Target[] = [];
    for (let next = selector.next(0, 10_000); next && next.pauseMs === 0; next = selector.next(0, 10_000)) {
      order.push(next.target);
      selector.recordFailure(next.target, 0);
      selector.recordProviderFailure(next.target);
    }
    // Once each provider has failed once, the order of preference counts again.
    expect(order).toEqual([a, c, b, smallA, smallB]);
  });

  it("stays at the provider if only the account's limit was reached, or no other one is ready", () => {
    const c = target('large', 'c');
    const limited = new TargetSelector({ health: new ConnectorHealth(() => 0), random: () => 1 }, [a, b, c]);
    limited.recordFailure(a, 0);
    expect(limited.next(0, 10_000)).toEqual({ target: b, pauseMs: 0 });

    const health = new ConnectorHealth(() => 0);
    for (const [{ connector }, result] of downed(c)) health.begin(connector)(result);
    const failed = new TargetSelector({ health, random: () => 1 }, [a, b, c]);
    failed.recordFailure(a, 0);
    failed.recordProviderFailure(a);
    expect(failed.next(0, 10_000)).toEqual({ target: b, pauseMs: 0 });
    // Nothing is ready: the open one of the other provider comes before the open one of the failed provider.
    for (const [{ connector }, result] of [...downed(a), ...downed(b)]) health.begin(connector)(result);
    expect(failed.next(0, 10_000)).toEqual({ target: c, pauseMs: 0 });
  });

  it('selects a dead connector rather than an open one that just failed this request', () => {
    const { selector } = world([[b, 'credential_rejected'], ...downed(a)]);
    expect(selector.next(0, 1)?.target).toBe(a);
    selector.recordFailure(a, 0);
    expect(selector.next(0, 1)).toEqual({ target: b, pauseMs: 0 });
    selector.exclude(b.connector);
    expect(selector.next(0, 1_000)).toEqual({ target: a, pauseMs: 100 });
  });

  it('selects a connector again once it accepts its credential or its settings change', () => {
    const { health } = world([[a, 'credential_rejected']]);
    expect(health.state(a.connector)).toBe('dead');
    expect(health.state({ ...a.connector })).toBe('closed');
    health.begin(a.connector)('good');
    expect(health.state(a.connector)).toBe('closed');
  });
});
