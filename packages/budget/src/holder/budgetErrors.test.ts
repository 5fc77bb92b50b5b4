import { create } from '@bufbuild/protobuf';
import { BucketRefSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import type { BudgetedPolicy } from '../policies.ts';
import { budgetExhausted, type OutputLimit, type RefusedRequest } from './budgetErrors.ts';

const policy: BudgetedPolicy = {
  bucket: create(BucketRefSchema, { policyId: 'pol_1', subject: 'ada' }),
  bucketKey: 'k',
  enforcement: 'enforce',
  isHard: true,
  isGoverning: true,
  windowEndMs: Date.UTC(2026, 11, 1),
};
const figures = { limitNanoUsd: 5_000_000n, spentNanoUsd: 4_000_000n };

/** A request of 1,000 micro-USD of input, and 1 micro-USD for each token of output. */
const output: OutputLimit = {
  field: 'max_completion_tokens',
  isSet: true,
  within: (nanoUsd) => (nanoUsd > 1_000_000n ? Number(nanoUsd / 1_000n) - 1_000 : undefined),
};
const refused = (
  estimate: bigint,
  asked: Partial<RefusedRequest> = {},
  spentNanoUsd = 4_000_000n,
  refusing = policy,
) =>
  budgetExhausted(refusing, { ...figures, spentNanoUsd }, { estimate, showsParentFigures: false, ...asked });

describe('a request that a budget does not cover', () => {
  it('learns its estimate, and that it is more than a fresh budget has', () => {
    const error = refused(6_000_000n, { output }, 2_000_000n);
    expect(error.message).toBe(
      'This request may cost 6000 micro-USD, more than the whole budget of this key (5000 micro-USD): waiting does not help. Lower max_completion_tokens to about 2000, or send a shorter input, or ask an operator to raise the limit.',
    );
    expect(error).toMatchObject({
      param: 'max_completion_tokens',
      headers: { 'x-should-retry': 'false' },
      details: { estimate_micro_usd: 6_000, limit_micro_usd: 5_000, reset: '2026-12-01T00:00:00.000Z' },
    });
  });

  it('learns that others share the budget', () => {
    const messageOf = (subject: string) =>
      refused(6_000_000n, {}, 0n, { ...policy, bucket: { ...policy.bucket, subject } }).message;
    expect(messageOf('key:key_1')).toContain('the whole budget of this key (5000');
    expect(messageOf('principal:ada')).toContain("of this key's principal, for all its keys (5000");
    expect(messageOf('policy')).toContain("of this key's policy, for all keys below it (5000");
  });

  it('learns what would fit a fresh budget if nothing fits what is left', () => {
    const error = refused(6_000_000n, { output }, 4_500_000n);
    expect(error.message).toContain('Lower max_completion_tokens to about 4000');
    expect(error.param).toBeUndefined();
  });

  it('learns when the budget resets, what is left, and which limit fits that', () => {
    const error = refused(4_000_000n, { output: { ...output, isSet: false } }, 2_000_000n);
    expect(error.message).toBe(
      'What is left of the budget of this key (3000 micro-USD) does not cover this request, which may cost 4000 micro-USD. Set max_completion_tokens to about 2000, or send a shorter input. It resets at 2026-12-01T00:00:00.000Z.',
    );
    expect(error.param).toBe('max_completion_tokens');
  });

  it.each([{ output }, {}])('learns that only a shorter input fits: %j', (asked) => {
    const error = refused(2_000_000n, asked, 4_500_000n);
    expect(error.message).toContain('Send a shorter input. It resets at');
    expect(error.message).not.toContain('max_');
    expect(error.param).toBeUndefined();
  });

  it('learns that nothing fits while the budget is used up', () => {
    const { message } = refused(2_000_000n, { output }, 5_000_000n);
    expect(message).toBe(
      'The budget of this key is used up: 5000 micro-USD of 5000 micro-USD are spent. It resets at 2026-12-01T00:00:00.000Z.',
    );
  });

  it('learns no figures of a counter that other keys may share by its value, unless its caller is an operator', () => {
    const limit = {
      id: 'lim_1',
      name: 'each user',
      scope: 'user',
      models: [],
      unit: undefined,
      value: 'ann',
    };
    const bucket = { ...policy.bucket, policyId: 'pol_1.lim_1', subject: 'user:ann' };
    const { message, details } = refused(6_000_000n, { output }, undefined, { ...policy, bucket, limit });
    expect(message).toContain('the limit each user for user ann');
    expect(details).toMatchObject({ policy_id: 'pol_1', limit_id: 'lim_1', value: 'ann' });
    expect(JSON.stringify([message, details])).not.toMatch(/5000|4000|1000/);
    const shown = refused(6_000_000n, { showsParentFigures: true }, undefined, { ...policy, bucket, limit });
    expect(shown.details).toMatchObject({ limit_micro_usd: 5_000, spent_micro_usd: 4_000 });
    const own = { ...bucket, subject: 'key:key_1' };
    const ofKey = refused(6_000_000n, {}, undefined, {
      ...policy,
      bucket: own,
      limit: { ...limit, value: undefined },
    });
    expect(ofKey.details).toMatchObject({ limit_micro_usd: 5_000, spent_micro_usd: 4_000 });
  });

  it('learns why it counts in `others`, or among those without attribution, and what can be done', () => {
    const limit = {
      id: 'lim_1',
      name: 'each user',
      scope: 'user',
      models: [],
      unit: undefined,
      value: undefined,
    };
    const at = (subject: string) => {
      const bucket = { ...policy.bucket, policyId: 'pol_1.lim_1', subject };
      return refused(6_000_000n, {}, undefined, { ...policy, bucket, limit }).message;
    };
    expect(at('others')).toMatch(/for all further values of user.*max_counters.*ask an operator to raise/);
    expect(at('unknown')).toContain('for all requests without user');
    expect(at('unknown')).not.toContain('max_counters');
  });

  it('learns why a limit for other models counts it', () => {
    const limit = {
      id: 'lim_1',
      name: 'large',
      scope: 'policy',
      models: ['*/large'],
      unit: undefined,
      value: undefined,
    };
    const bucket = { ...policy.bucket, policyId: 'pol_1.lim_1', subject: 'policy' };
    const messageOf = (namesOtherModels: boolean) =>
      refused(6_000_000n, { namesOtherModels }, undefined, { ...policy, bucket, limit }).message;
    expect(messageOf(true)).toMatch(/counts models by \*\/large\. It counts this request, because/);
    expect(messageOf(false)).not.toContain('*/large');
  });

  it('learns no figures of a parent policy', () => {
    const parent = { ...policy, isGoverning: false };
    const { message, details, param } = refused(6_000_000n, { output }, undefined, parent);
    expect(message).toContain('a parent policy');
    expect(message).toContain('A lower max_completion_tokens may fit.');
    expect(JSON.stringify([message, details, param])).not.toMatch(/pol_1|5000|4000|about|whole/);
    expect(refused(6_000_000n, { output, showsParentFigures: true }, undefined, parent)).toMatchObject({
      message: expect.stringContaining('the whole budget of a parent policy'),
      details: { policy_id: 'pol_1' },
    });
  });
});
