/** Names one counter in one window. Its spend is a row of `spend_buckets`. */
export interface BucketRef {
  readonly policyId: string;
  /** Incremented when the policy's window, time zone or counter scope changes, which starts new counters. */
  readonly counterVersion: number;
  /** Whose spend it counts: a `keySubject`, a `principalSubject` or `POLICY_SUBJECT`. */
  readonly subject: string;
  readonly windowStart: Date;
}

/** The subject of a counter that everyone governed by the policy shares. */
export const POLICY_SUBJECT = 'policy';

export function keySubject(keyId: string): string {
  return `key:${keyId}`;
}

export function principalSubject(principalId: string): string {
  return `principal:${principalId}`;
}

/** The subject is last, since a principal's id may contain any character. */
export function bucketKey(bucket: BucketRef): string {
  return `${bucket.policyId}/${bucket.counterVersion}/${bucket.windowStart.getTime()}/${bucket.subject}`;
}

/** The inverse of `bucketKey`. Only the subject, which is last, may contain a slash. */
export function bucketOfKey(key: string): BucketRef {
  const [policyId = '', version, start, ...subject] = key.split('/');
  return {
    policyId,
    counterVersion: Number(version),
    subject: subject.join('/'),
    windowStart: new Date(Number(start)),
  };
}

/** The bucket of a principal's own spend under the same policy in the same window, whatever the counter scope. */
export function principalBucket(bucket: BucketRef, principalId: string): BucketRef {
  return { ...bucket, subject: principalSubject(principalId) };
}

/**
 * Every bucket that an event counts in, by key: those it names, and the principal's own under each of their policies. With
 * counter scope `principal` the two are the same.
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
