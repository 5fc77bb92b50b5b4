import { createMetrics } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { createRefusedCalls } from './refusedCalls.ts';

it('counts each refused call, and logs one line a minute with their number', async () => {
  const lines: object[] = [];
  const metrics = createMetrics();
  let now = 0;
  const refuse = createRefusedCalls(
    { metrics, logger: { warn: (line: object) => lines.push(line) } },
    () => now,
  );
  for (let at = 0; at < 4_000; at++) refuse('Watch');
  now = 60_000;
  refuse('Lease');
  expect(lines).toEqual([
    { refused: 1, call: 'Watch' },
    { refused: 4_000, call: 'Lease' },
  ]);
  expect(await metrics.text()).toContain('weighbridge_control_calls_refused_total{call="Watch"} 4000');
});
