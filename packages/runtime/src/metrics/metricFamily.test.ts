import { expect, it } from 'vitest';
import { createMetrics } from './metrics.ts';

const linesOf = async (metrics: ReturnType<typeof createMetrics>, name: string) =>
  (await metrics.text()).split('\n').filter((line) => line.startsWith(name));

it('exports counters by their labels, in the text format', async () => {
  const metrics = createMetrics();
  const family = metrics.counterFamily('weighbridge_seen_total', 'Seen.', ['model', 'type']);
  family.of('mock/echo', 'input').add(3);
  family.of('mock/echo', 'input').add(4);
  family.of('mock/"echo', 'output').add(1);
  expect(await linesOf(metrics, 'weighbridge_seen')).toEqual([
    'weighbridge_seen_total{model="mock/echo",type="input"} 7',
    'weighbridge_seen_total{model="mock/\\"echo",type="output"} 1',
  ]);
  expect(await metrics.text()).toContain('# TYPE weighbridge_seen_total counter');
});

it('exports a counter without labels from zero on', async () => {
  const metrics = createMetrics();
  metrics.counterFamily('weighbridge_plain_total', 'Plain.', []);
  expect(await linesOf(metrics, 'weighbridge_plain')).toEqual(['weighbridge_plain_total 0']);
});

it('sums money exactly, beyond the precision of a float, and exports it in dollars', async () => {
  const metrics = createMetrics();
  const cost = metrics.costCounterFamily('weighbridge_cost_usd_total', 'Cost.', ['model']).of('m');
  cost.add(2n ** 60n);
  for (let time = 0; time < 1_000; time++) cost.add(1n);
  cost.add(-(2n ** 60n));
  expect(await linesOf(metrics, 'weighbridge_cost')).toEqual([
    'weighbridge_cost_usd_total{model="m"} 0.000001',
  ]);
});

it('puts values into the buckets of a histogram, bounds included', async () => {
  const metrics = createMetrics();
  const spread = metrics
    .histogramFamily('weighbridge_took_seconds', 'Took.', ['endpoint'], [0.5, 1])
    .of('chat');
  for (const value of [0.25, 0.5, 0.75, 4]) spread.observe(value);
  expect(await linesOf(metrics, 'weighbridge_took')).toEqual([
    'weighbridge_took_seconds_bucket{le="0.5",endpoint="chat"} 2',
    'weighbridge_took_seconds_bucket{le="1",endpoint="chat"} 3',
    'weighbridge_took_seconds_bucket{le="+Inf",endpoint="chat"} 4',
    'weighbridge_took_seconds_sum{endpoint="chat"} 5.5',
    'weighbridge_took_seconds_count{endpoint="chat"} 4',
  ]);
});

it('counts label values beyond a thousand sets together', async () => {
  const metrics = createMetrics();
  const family = metrics.counterFamily('weighbridge_many_total', 'Many.', ['policy', 'limit']);
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < 1_500; at++) family.of(`p${at}`, 'budget').add(1);
  }
  const lines = await linesOf(metrics, 'weighbridge_many_total');
  expect(lines).toHaveLength(1_001);
  expect(lines).toContain('weighbridge_many_total{policy="p999",limit="budget"} 2');
  expect(lines).toContain('weighbridge_many_total{policy="other",limit="other"} 1000');
});
