import { createMetrics } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { createUnknownEvents } from './unknownEvents.ts';

it('counts by name, and any number of names in a bounded number of series', async () => {
  const metrics = createMetrics();
  const saw = createUnknownEvents(metrics);
  saw('anthropic', new Map([['new_block', 2]]));
  saw(
    'anthropic',
    new Map([
      ['new_block', 1],
      ['line\nbreak"', 1],
      ['', 1],
    ]),
  );
  for (let at = 0; at < 1_000; at++) saw('openai', new Map([[`event.${at}`, 1]]));
  const text = await metrics.text();
  const series = text
    .split('\n')
    .filter((line) => line.startsWith('weighbridge_unknown_vendor_events_total{'));
  expect(series).toContain(
    'weighbridge_unknown_vendor_events_total{provider="anthropic",event="new_block"} 3',
  );
  expect(series).toContain('weighbridge_unknown_vendor_events_total{provider="anthropic",event="other"} 2');
  expect(series.length).toBeLessThan(70);
});
