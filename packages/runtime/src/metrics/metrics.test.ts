import { expect, it } from 'vitest';
import { createMetrics } from './metrics.ts';

it('counts by label, by any number, and without labels', async () => {
  const metrics = createMetrics();
  const plain = metrics.counter('weighbridge_plain_total', 'Plain.', []);
  const labelled = metrics.counter('weighbridge_labelled_total', 'By label.', ['kind']);
  plain.inc();
  plain.inc(3);
  labelled.inc({ kind: 'a' });
  labelled.inc({ kind: 'a' }, 4);
  const text = await metrics.text();
  expect(text).toMatch(/^weighbridge_plain_total 4$/m);
  expect(text).toMatch(/^weighbridge_labelled_total\{kind="a"\} 5$/m);
});

it('counts label values beyond a thousand sets together', async () => {
  const metrics = createMetrics();
  const counter = metrics.counter('weighbridge_many_total', 'Many.', ['policy', 'limit']);
  for (let round = 0; round < 2; round++) {
    for (let at = 0; at < 1_500; at++) counter.inc({ policy: `p${at}`, limit: 'budget' });
  }
  const lines = (await metrics.text())
    .split('\n')
    .filter((line) => line.startsWith('weighbridge_many_total'));
  expect(lines).toHaveLength(1_001);
  expect(lines).toContain('weighbridge_many_total{policy="p999",limit="budget"} 2');
  expect(lines).toContain('weighbridge_many_total{policy="other",limit="other"} 1000');
});

it('reads a gauge at each scrape, with the sets of labels that exist then', async () => {
  const metrics = createMetrics();
  let spools = [{ name: 'a', id: '1' }];
  metrics.gaugeBy('weighbridge_lost', 'Lost.', ['name', 'id'], () => spools.map((set) => [set, 7] as const));
  expect(await metrics.text()).toMatch(/^weighbridge_lost\{name="a",id="1"\} 7$/m);
  spools = [{ name: 'b', id: '2' }];
  expect(await metrics.text()).not.toContain('name="a"');
});
