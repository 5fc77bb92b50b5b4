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

/** The bucket that adds up a principal's spend under the same policy in the same window, whatever the counter scope. */
export function principalBucket(bucket: BucketRef, principalId: string): BucketRef {
  return { ...bucket, subject: principalSubject(principalId) };
}
