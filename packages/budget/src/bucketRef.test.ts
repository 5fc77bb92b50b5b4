import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { bucketAt, bucketKey, bucketOfKey, countersOf, windowStartOf } from './bucketRef.ts';

describe('the key of a bucket', () => {
  it('is read back as the bucket, whatever its subject contains', () => {
    const buckets = fc.record({
      policyId: fc.string().map((text) => text.replaceAll('/', '')),
      counterVersion: fc.nat(),
      subject: fc.string(),
      windowStartMs: fc.bigInt({ min: -(2n ** 50n), max: 2n ** 50n }),
    });
    fc.assert(
      fc.property(buckets, (bucket) => {
        expect(bucketOfKey(bucketKey(bucket))).toEqual(bucket);
      }),
    );
  });

  it('has the start of the window in milliseconds', () => {
    const windowStart = new Date('2026-11-01T00:00:00Z');
    const bucket = bucketAt({ policyId: 'pol_1', counterVersion: 3, subject: 'principal:a/b' }, windowStart);
    expect(bucketKey(bucket)).toBe('pol_1/3/1793491200000/principal:a/b');
    expect(windowStartOf(bucket)).toEqual(windowStart);
  });
});

it("counts an event in the buckets that it names, and in its principal's own", () => {
  const bucket = { policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: 0n };
  expect([...countersOf([bucket, bucket], 'ada').keys()]).toEqual([
    'pol_1/1/0/policy',
    'pol_1/1/0/principal:ada',
  ]);
});
