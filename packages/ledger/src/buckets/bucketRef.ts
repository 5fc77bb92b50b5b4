/** Names one counter in one window. Its spend is a row of `spend_buckets`. */
export interface BucketRef {
  readonly policyId: string;
  /** Counts up when the policy's window, time zone or counter scope changes: that starts new counters. */
  readonly counterVersion: number;
  /** Whose spend it counts: `keySubject`, `principalSubject` or `POLICY_SUBJECT`. */
  readonly subject: string;
  readonly windowStart: Date;
}

/** All that the policy governs share one counter. */
export const POLICY_SUBJECT = 'policy';

export function keySubject(keyId: string): string {
  return `key:${keyId}`;
}

export function principalSubject(principalId: string): string {
  return `principal:${principalId}`;
}

/** The subject comes last: a principal's id may hold any character. */
export function bucketKey(bucket: BucketRef): string {
  return `${bucket.policyId}/${bucket.counterVersion}/${bucket.windowStart.getTime()}/${bucket.subject}`;
}

/** What a bucket's key was made of: only the subject, which is last, may hold a slash. */
export function bucketOfKey(key: string): BucketRef {
  const [policyId = '', version, start, ...subject] = key.split('/');
  return {
    policyId,
    counterVersion: Number(version),
    subject: subject.join('/'),
    windowStart: new Date(Number(start)),
  };
}

/** The bucket that adds up a principal's spend under the same policy in the same window, whatever the counter scope. */
export function principalBucket(bucket: BucketRef, principalId: string): BucketRef {
  return { ...bucket, subject: principalSubject(principalId) };
}

/**
 * Every counter of an event by key, each once: with counter scope `principal`, the governing counter is the principal's own.
 */
export function countersOf(buckets: readonly BucketRef[], principalId: string): Map<string, BucketRef> {
  const counters = new Map<string, BucketRef>();
  for (const bucket of buckets) {
    counters.set(bucketKey(bucket), bucket);
    const principals = principalBucket(bucket, principalId);
    counters.set(bucketKey(principals), principals);
  }
  return counters;
}
