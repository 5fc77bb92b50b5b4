import { create } from '@bufbuild/protobuf';
import { BudgetCallSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { sliceOf } from './leases.service.ts';

function slice(minimum: bigint, burn: bigint | undefined, room: bigint | undefined, live = 2n): bigint {
  const call = { minimumNanoUsd: minimum, ...(burn !== undefined && { burnNanoUsdPerSecond: burn }) };
  return sliceOf(create(BudgetCallSchema, call), room, live);
}

describe('how much is granted at once', () => {
  it('lasts for two minutes of what is spent', () => {
    expect(slice(1n, 10n, 1_000_000n)).toBe(1_200n);
  });

  it('is at most half of an even share of the room, and an eighth of one while the burn is unknown', () => {
    expect(slice(1n, 1_000_000n, 1_000n)).toBe(250n);
    expect(slice(1n, undefined, 1_600n)).toBe(100n);
  });

  it('is never less than what helps, and nothing where nothing is wanted', () => {
    expect(slice(500n, 1n, 1_000n)).toBe(500n);
    expect(slice(500n, undefined, undefined)).toBe(500n);
    expect(slice(0n, 10n, 1_000n)).toBe(0n);
  });
});
