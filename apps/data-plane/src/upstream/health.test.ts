import { create } from '@bufbuild/protobuf';
import { SnapshotSchema } from '@weighbridge/contracts';
import { createMetrics } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { type RoutableConnector, routingTable } from '../control/routingTable.ts';
import { OPEN_MS } from './breaker.ts';
import { ConnectorHealth, describeHealth } from './health.ts';

it('the metric shows how the connectors of the table stand, and none that is gone from it', async () => {
  let nowMs = 0;
  const health = new ConnectorHealth(() => nowMs);
  const tableOf = (ids: readonly string[]) =>
    routingTable(create(SnapshotSchema, { connectors: ids.map((id) => ({ id, provider: 'acme' })) }));
  let table = tableOf(['well', 'down', 'dead']);
  const [, down, dead] = table.connectors.get('acme') as [unknown, RoutableConnector, RoutableConnector];
  const metrics = createMetrics();
  describeHealth(metrics, health, () => table);
  const shown = async () =>
    (await metrics.text())
      .split('\n')
      .flatMap(
        (line) =>
          /^weighbridge_connector_state\{connector="(\w+)"\} (\d)$/.exec(line)?.slice(1).join(' ') ?? [],
      );

  for (let at = 0; at < 5; at++) health.begin(down)('bad');
  health.begin(dead)('refused');
  expect(await shown()).toEqual(['well 0', 'down 2', 'dead 3']);
  nowMs += OPEN_MS;
  expect(await shown()).toEqual(['well 0', 'down 1', 'dead 3']);
  table = tableOf(['well']);
  expect(await shown()).toEqual(['well 0']);
});
