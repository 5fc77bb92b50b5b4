import { create } from '@bufbuild/protobuf';
import { HeartbeatSchema } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { clockFault } from './clockFault.ts';
import { Pulse } from './pulse.ts';

const HOUR_MS = 3_600_000;

it('a clock is at fault where it is more than a day off, either way', () => {
  // Clocks differ, and some are set by the wrong time zone.
  for (const hours of [0, 0.1, -0.1, 14, -14, 24, -24]) expect(clockFault(hours * HOUR_MS)).toBeUndefined();
  expect(clockFault(100 * 24 * HOUR_MS)).toMatch(/100 day\(s\) ahead of .* control plane/);
  expect(clockFault(-20_000 * 24 * HOUR_MS)).toMatch(/20000 day\(s\) behind/);
});

it('a heartbeat tells how far the clocks are apart; one without a time tells nothing', () => {
  const pulse = new Pulse();
  const now = { monotonicMs: 1, wallMs: 1_790_000_000_000 };
  expect(clockFault(pulse.aheadMs)).toBeUndefined();
  pulse.beat(create(HeartbeatSchema, { clockMs: BigInt(now.wallMs - 5_000) }), now);
  expect(pulse.aheadMs).toBe(5_000);
  pulse.beat(create(HeartbeatSchema, {}), now);
  expect(pulse.aheadMs).toBe(5_000);
});
