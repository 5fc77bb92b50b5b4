import { create } from '@bufbuild/protobuf';
import { SnapshotSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { type RoutableConnector, routingTable } from '../control/routingTable.ts';
import { type AttemptResult, ConnectorHealth } from '../upstream/health.ts';
import { Choice } from './choice.ts';

const [a, b] = [
  ...(routingTable(
    create(SnapshotSchema, {
      connectors: [
        { id: 'a', provider: 'acme', priority: 1 },
        { id: 'b', provider: 'acme', priority: 2 },
      ],
    }),
  ).connectors.get('acme') ?? []),
] as [RoutableConnector, RoutableConnector];

/** Where each attempt at a connector ended so, so far. */
function world(ends: readonly [RoutableConnector, AttemptResult][] = []) {
  const health = new ConnectorHealth(() => 0);
  for (const [connector, result] of ends) health.begin(connector)(result);
  return { health, choice: new Choice({ health, random: () => 1 }, [a, b]) };
}
const downed = (connector: RoutableConnector) =>
  Array.from({ length: 5 }, () => [connector, 'bad'] as [RoutableConnector, AttemptResult]);

describe('a request', () => {
  it('goes to the next connector at once, and to the same again after a growing pause', () => {
    const { choice } = world();
    expect(choice.next(0, 10_000)).toEqual({ connector: a, pauseMs: 0 });
    choice.failed(a, 0);
    expect(choice.next(0, 10_000)).toEqual({ connector: b, pauseMs: 0 });
    choice.failed(b, 0);
    expect(choice.next(0, 10_000)).toEqual({ connector: a, pauseMs: 100 });
    choice.failed(a, 100);
    choice.failed(b, 100);
    expect(choice.next(100, 10_000)).toEqual({ connector: a, pauseMs: 200 });
  });

  it('waits for as long as its vendor asks, if that is short enough, else goes where it need not', () => {
    const { choice } = world();
    choice.exclude(b);
    choice.failed(a, 0, 1_500);
    expect(choice.next(0, 10_000)).toEqual({ connector: a, pauseMs: 1_500 });
    expect(choice.next(0, 1_500)).toBeUndefined();
    choice.failed(a, 0, 6_000);
    expect(choice.next(0, 60_000)).toBeUndefined();

    const { choice: other } = world(downed(b));
    other.failed(a, 0, 6_000);
    expect(other.next(0, 60_000)).toEqual({ connector: b, pauseMs: 0 });
  });

  it('passes over what is open or dead, and where all are, takes the least bad: a dead one last', () => {
    expect(world(downed(a)).choice.next(0, 1)?.connector).toBe(b);
    expect(world([[a, 'refused']]).choice.next(0, 1)?.connector).toBe(b);
    expect(world([[a, 'refused'], ...downed(b)]).choice.next(0, 1)?.connector).toBe(b);
    // Of two that are open, the one that did better before.
    const better: [RoutableConnector, AttemptResult] = [b, 'good'];
    expect(world([...downed(a), better, ...downed(b)]).choice.next(0, 1)?.connector).toBe(b);
  });

  it('tries a dead one rather than what failed it just now and is open', () => {
    const { choice } = world([[b, 'refused'], ...downed(a)]);
    expect(choice.next(0, 1)?.connector).toBe(a);
    choice.failed(a, 0);
    expect(choice.next(0, 1)).toEqual({ connector: b, pauseMs: 0 });
    choice.exclude(b);
    expect(choice.next(0, 1_000)).toEqual({ connector: a, pauseMs: 100 });
  });

  it('finds a dead connector alive once it was taken after all, and it is another after a change', () => {
    const { health } = world([[a, 'refused']]);
    expect(health.state(a)).toBe('dead');
    expect(health.state({ ...a })).toBe('closed');
    health.begin(a)('good');
    expect(health.state(a)).toBe('closed');
  });
});
