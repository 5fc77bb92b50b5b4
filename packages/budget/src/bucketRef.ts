/**
 * Names one counter in one window, in the shape of the wire: a message of `contracts` is one. Its spend is a row of
 * `spend_buckets`.
 */
export interface BucketRef {
  readonly policyId: string;
  /** Incremented when the policy's window, time zone or counter scope changes, which starts new counters. */
  readonly counterVersion: number;
  /** Whose spend it counts: a `keySubject`, a `principalSubject` or `POLICY_SUBJECT`. */
  readonly subject: string;
  /** Unix milliseconds; 0 if the window never ends. */
  readonly windowStartMs: bigint;
}

/** The subject of a counter that everyone governed by the policy shares. */
export const POLICY_SUBJECT = 'policy';

export function keySubject(keyId: string): string {
  return `key:${keyId}`;
}

export function principalSubject(principalId: string): string {
  return `principal:${principalId}`;
}

/** Whether it is a `principalSubject`: the counter is shared by all keys of the principal. */
export function isPrincipalSubject(subject: string): boolean {
  return subject.startsWith(principalSubject(''));
}

/** The bucket of a counter in the window that starts then. */
export function bucketAt(counter: Omit<BucketRef, 'windowStartMs'>, windowStart: Date): BucketRef {
  const { policyId, counterVersion, subject } = counter;
  return { policyId, counterVersion, subject, windowStartMs: BigInt(windowStart.getTime()) };
}

/** As SQL takes it. */
export function windowStartOf({ windowStartMs }: Pick<BucketRef, 'windowStartMs'>): Date {
  return new Date(Number(windowStartMs));
}

/**
 * Equal for all references to the same counter in the same window. The subject is last, since a principal's id may contain any
 * character.
 */
export function bucketKey({ policyId, counterVersion, windowStartMs, subject }: BucketRef): string {
  return `${policyId}/${counterVersion}/${windowStartMs}/${subject}`;
}

/** The inverse of `bucketKey`. Only the subject, which is last, may contain a slash. */
export function bucketOfKey(key: string): BucketRef {
  const [policyId = '', version, startMs = '', ...subject] = key.split('/');
  return {
    policyId,
    counterVersion: Number(version),
    subject: subject.join('/'),
    windowStartMs: BigInt(startMs),
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
