import { createHash } from 'node:crypto';

/**
 * Names one counter in one window, in the shape of the wire: a message of `contracts` is one. Its spend is a row of
 * `spend_buckets`.
 */
export interface BucketRef {
  /** The policy that defines the counter, or an amount of a further limit of one: a `furtherLimitId`. */
  readonly policyId: string;
  /** Incremented when what defines it changes, such as the window or the counter scope, which starts new counters. */
  readonly counterVersion: number;
  /** Whose spend it counts: a `keySubject`, a `principalSubject` or `POLICY_SUBJECT`; of a further limit also a `valueSubject`. */
  readonly subject: string;
  /** Unix milliseconds; 0 if the window never ends; `UNOPENED_MS` if it opens on first use, and the control plane knows when. */
  readonly windowStartMs: bigint;
}

/** The start of a window that is not known to be open. No event has it. */
export const UNOPENED_MS = -1n;

/** The subject of a counter that everyone governed by the policy shares. */
export const POLICY_SUBJECT = 'policy';

export function keySubject(keyId: string): string {
  return `key:${keyId}`;
}

export function principalSubject(principalId: string): string {
  return `principal:${principalId}`;
}

/** The subject of the counter for all attempts without the attribution that a further limit has counters for. */
export const UNKNOWN_SUBJECT = 'unknown';
/** The subject of the counter for all values beyond those that a further limit has counters for. */
export const OTHERS_SUBJECT = 'others';
/** In UTF-8: with the policy's id and the window, a bucket's key must fit an entry of an index. */
const MAX_VALUE_BYTES = 256;

/** The subject of the counter for one value of some attribution, such as `user`. A long value is named by its SHA-256, in hex. */
export function valueSubject(attribution: string, value: string): string {
  // No character takes more than three bytes per UTF-16 code unit.
  const isShort = value.length * 3 <= MAX_VALUE_BYTES || Buffer.byteLength(value) <= MAX_VALUE_BYTES;
  if (isShort) return `${attribution}:${value}`;
  return hashedValueSubject(attribution, createHash('sha256').update(value).digest());
}

/** As `valueSubject`, of a value that may be cut, with the SHA-256 of the whole. */
export function hashedValueSubject(attribution: string, sha256: Uint8Array): string {
  return `${attribution}#${Buffer.from(sha256).toString('hex')}`;
}

/** Whose counter a subject names. */
interface CounterOwner {
  /** `key`, `principal`, `policy`, the attribution such as `user`, `unknown` or `others`. */
  readonly counter: string;
  readonly keyId: string | null;
  readonly principalId: string | null;
  /** Of attribution. Null: of none, or so long that only its hash is known. */
  readonly value: string | null;
  /** Of a long value, in hex. */
  readonly valueSha256: string | null;
}

/** The inverse of `keySubject`, `principalSubject`, `valueSubject` and `hashedValueSubject`. */
export function ownerOf(subject: string): CounterOwner {
  const end = subject.search(/[:#]/);
  const counter = end < 0 ? subject : subject.slice(0, end);
  const who = end < 0 ? null : subject.slice(end + 1);
  const isHash = subject[end] === '#';
  const isValue = counter !== 'key' && counter !== 'principal';
  return {
    counter,
    keyId: counter === 'key' ? who : null,
    principalId: counter === 'principal' ? who : null,
    value: isValue && !isHash ? who : null,
    valueSha256: isHash ? who : null,
  };
}

/** What a bucket counts other than nano-USD. */
export type CountUnit = 'requests' | 'tokens';

/** How much an attempt counts in buckets of either unit. */
export type Counts = Readonly<Record<CountUnit, bigint>>;

export const NO_COUNTS: Counts = { requests: 0n, tokens: 0n };

/** The `policyId` of a further limit's buckets. Those of an amount in requests or tokens are named by their unit. */
export function furtherLimitId(policyId: string, limitId: string, unit?: CountUnit): string {
  return unit ? `${policyId}.${limitId}.${unit}` : `${policyId}.${limitId}`;
}

/** A bucket's policy, and its further limit if it is of one. `unit` is undefined if it counts nano-USD. */
export function definedBy({ policyId }: Pick<BucketRef, 'policyId'>): {
  readonly policyId: string;
  readonly limitId: string | undefined;
  readonly unit: CountUnit | undefined;
} {
  if (!policyId.includes('.')) return { policyId, limitId: undefined, unit: undefined };
  const [id = '', limitId, unit] = policyId.split('.');
  return { policyId: id, limitId, unit: unit === 'requests' || unit === 'tokens' ? unit : undefined };
}

/** What a bucket counts; undefined: nano-USD. */
export function unitOf(bucket: Pick<BucketRef, 'policyId'>): CountUnit | undefined {
  return definedBy(bucket).unit;
}

/** Whether it is a `principalSubject`: the counter is shared by all keys of the principal. */
export function isPrincipalSubject(subject: string): boolean {
  return subject.startsWith(principalSubject(''));
}

/** Whether a counter of a further limit is of a value of attribution, or of all without one of their own: any key may name it. */
export function isOfAttribution(subject: string): boolean {
  return subject !== POLICY_SUBJECT && !isPrincipalSubject(subject) && !subject.startsWith(keySubject(''));
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
 * Every bucket that an event counts in, by key: those it names, and the principal's own under each of their policies, though not under
 * their further limits. With
 * counter scope `principal` the two are the same.
 */
export function countersOf(buckets: readonly BucketRef[], principalId: string): Map<string, BucketRef> {
  const counters = new Map<string, BucketRef>();
  for (const bucket of buckets) {
    counters.set(bucketKey(bucket), bucket);
    if (definedBy(bucket).limitId !== undefined) continue;
    const principals = principalBucket(bucket, principalId);
    counters.set(bucketKey(principals), principals);
  }
  return counters;
}
