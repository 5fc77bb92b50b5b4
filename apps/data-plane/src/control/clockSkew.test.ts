import { create } from '@bufbuild/protobuf';
import { HeartbeatSchema } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { describeClockSkew } from './clockSkew.ts';
import { HeartbeatState } from './heartbeatState.ts';

const HOUR_MS = 3_600_000;

it('a clock is refused where it is more than a day off, in either direction', () => {
  // Small differences and wrong time zones are tolerated.
  for (const hours of [0, 0.1, -0.1, 14, -14, 24, -24])
    expect(describeClockSkew(hours * HOUR_MS)).toBeUndefined();
  expect(describeClockSkew(100 * 24 * HOUR_MS)).toMatch(/100 day\(s\) ahead of .* control plane/);
  expect(describeClockSkew(-20_000 * 24 * HOUR_MS)).toMatch(/20000 day\(s\) behind/);
});

it('a heartbeat gives the clock skew; one without a time changes nothing', () => {
  const heartbeats = new HeartbeatState();
  const now = { monotonicMs: 1, wallMs: 1_790_000_000_000 };
  expect(describeClockSkew(heartbeats.clockAheadMs)).toBeUndefined();
  heartbeats.receive(create(HeartbeatSchema, { clockMs: BigInt(now.wallMs - 5_000) }), now);
  expect(heartbeats.clockAheadMs).toBe(5_000);
  heartbeats.receive(create(HeartbeatSchema, {}), now);
  expect(heartbeats.clockAheadMs).toBe(5_000);
});
