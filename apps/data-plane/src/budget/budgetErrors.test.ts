import { create } from '@bufbuild/protobuf';
import { BucketRefSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import type { BudgetedPolicy } from '../control/keyPolicies.ts';
import { budgetExhausted } from './budgetErrors.ts';

const policy: BudgetedPolicy = {
  bucket: create(BucketRefSchema, { policyId: 'pol_1', subject: 'ada' }),
  bucketKey: 'k',
  enforcement: 'enforce',
  isHard: true,
  isGoverning: true,
  windowEndMs: Date.UTC(2026, 11, 1),
};
const figures = { limitNanoUsd: 5_000_000n, spentNanoUsd: 4_000_000n };

describe('a request that a budget does not cover', () => {
  it('learns its estimate, and that it is more than a fresh budget has', () => {
    const error = budgetExhausted(policy, figures, 6_000_000n, false);
    const { message } = error;
    expect(message).toContain('may cost 6000 micro-USD, more than the whole budget of this key');
    expect(message).toContain('max_tokens');
    expect(message).not.toContain('resets');
    expect(error).toMatchObject({
      headers: { 'x-should-retry': 'false' },
      details: { estimate_micro_usd: 6_000, limit_micro_usd: 5_000, reset: '2026-12-01T00:00:00.000Z' },
    });
  });

  it('learns when the budget resets, and whether a smaller request may fit', () => {
    const left = budgetExhausted(policy, figures, 2_000_000n, false).message;
    expect(left).toContain('resets at 2026-12-01');
    expect(left).toContain('lower max_tokens');
    const nothing = { ...figures, spentNanoUsd: 5_000_000n };
    expect(budgetExhausted(policy, nothing, 2_000_000n, false).message).not.toContain('max_tokens');
  });

  it('learns no figures of a parent policy', () => {
    const parent = { ...policy, isGoverning: false };
    const { message, details } = budgetExhausted(parent, figures, 6_000_000n, false);
    expect(message).toContain('a parent policy');
    expect(JSON.stringify([message, details])).not.toMatch(/pol_1|5000|4000|whole/);
    expect(budgetExhausted(parent, figures, 6_000_000n, true)).toMatchObject({
      details: { policy_id: 'pol_1' },
    });
  });
});
