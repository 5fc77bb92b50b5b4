import { create } from '@bufbuild/protobuf';
import { ConnectorState, SnapshotSchema } from '@weighbridge/contracts';
import { createMetrics } from '@weighbridge/runtime';
import { type RoutableConnector, routingTable, tablesOf } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { OPEN_MS } from './circuitBreaker.ts';
import { addHealthMetrics, ConnectorHealth, DEAD_PROBE_MS, reportHealth } from './connectorHealth.ts';

it('the metric shows the state of the connectors in the table, and of no others', async () => {
  let nowMs = 0;
  const health = new ConnectorHealth(() => nowMs);
  const tableOf = (ids: readonly string[]) =>
    routingTable(
      tablesOf(
        create(SnapshotSchema, {
          connectors: ids.map((id, priority) => ({ id, provider: 'acme', priority })),
        }),
      ),
    );
  let table = tableOf(['well', 'down', 'dead']);
  const [, down, dead] = table.connectors.get('acme') as [unknown, RoutableConnector, RoutableConnector];
  const metrics = createMetrics();
  addHealthMetrics(metrics, health, () => table);
  const shown = async () =>
    (await metrics.text())
      .split('\n')
      .flatMap(
        (line) =>
          /^weighbridge_connector_state\{connector="(\w+)"\} (\d)$/.exec(line)?.slice(1).join(' ') ?? [],
      );

  for (let at = 0; at < 5; at++) health.begin(down)('bad');
  health.begin(dead)('credential_rejected');
  expect(await shown()).toEqual(['well 0', 'down 2', 'dead 3']);
  nowMs += OPEN_MS;
  expect(await shown()).toEqual(['well 0', 'down 1', 'dead 3']);
  table = tableOf(['well']);
  expect(await shown()).toEqual(['well 0']);
});

it('a report names those that are not closed, the longest down first, and at most 100', () => {
  let nowMs = 0;
  const health = new ConnectorHealth(() => nowMs);
  const ids = ['well', 'dead', 'down', ...Array.from({ length: 100 }, (_, n) => `other${n}`)];
  const connectors = ids.map((id, priority) => ({ id, provider: 'acme', priority }));
  const table = routingTable(tablesOf(create(SnapshotSchema, { connectors })));
  const [, dead, down, ...others] = table.connectors.get('acme') as RoutableConnector[];
  expect(reportHealth(health, undefined)).toEqual([]);
  expect(reportHealth(health, table)).toEqual([]);
  const break_ = (connector: RoutableConnector | undefined) => {
    for (let at = 0; connector && at < 5; at++) health.begin(connector)('bad');
  };
  if (dead) health.begin(dead)('credential_rejected');
  nowMs = 2_000;
  break_(down);
  nowMs = 3_000;
  const first = [
    { connectorId: 'dead', state: ConnectorState.DEAD, downForMs: 3_000n },
    { connectorId: 'down', state: ConnectorState.OPEN, downForMs: 1_000n },
  ];
  expect(reportHealth(health, table)).toEqual(first);
  others.forEach(break_);
  expect(reportHealth(health, table)).toHaveLength(100);
  expect(reportHealth(health, table).slice(0, 2)).toEqual(first);
  nowMs += OPEN_MS;
  expect(reportHealth(health, table)).toContainEqual({
    connectorId: 'down',
    state: ConnectorState.HALF_OPEN,
    downForMs: 0n,
  });
});

describe('a dead connector', () => {
  function dead() {
    const clock = { nowMs: 1 };
    const health = new ConnectorHealth(() => clock.nowMs);
    const snapshot = create(SnapshotSchema, { connectors: [{ id: 'a', provider: 'acme' }] });
    const [connector] = routingTable(tablesOf(snapshot)).connectors.get('acme') as [RoutableConnector];
    health.begin(connector)('credential_rejected');
    expect([health.state(connector), health.isReady(connector)]).toEqual(['dead', false]);
    return { clock, health, connector };
  }

  it('is probed once a minute, and again a minute after a refused probe', () => {
    const { clock, health, connector } = dead();
    clock.nowMs += DEAD_PROBE_MS - 1;
    expect(health.isReady(connector)).toBe(false);
    clock.nowMs += 1;
    expect(health.isReady(connector)).toBe(true);
    const probe = health.begin(connector);
    expect(health.isReady(connector)).toBe(false);
    clock.nowMs += 1_000;
    probe('credential_rejected');
    clock.nowMs += DEAD_PROBE_MS - 1;
    expect([health.state(connector), health.isReady(connector)]).toEqual(['dead', false]);
    clock.nowMs += 1;
    expect(health.isReady(connector)).toBe(true);
    // Session pins use it.
    expect(health.downForMs(connector)).toBe(2 * DEAD_PROBE_MS + 1_000);
  });

  it('is alive again once it accepts its credential', () => {
    const { clock, health, connector } = dead();
    clock.nowMs += DEAD_PROBE_MS;
    health.begin(connector)('good');
    expect([health.state(connector), health.isReady(connector)]).toEqual(['closed', true]);
  });

  it('is probed again where a probe had no result', () => {
    const { clock, health, connector } = dead();
    clock.nowMs += DEAD_PROBE_MS;
    health.begin(connector)('unknown');
    expect([health.state(connector), health.isReady(connector)]).toEqual(['dead', true]);
  });
});
