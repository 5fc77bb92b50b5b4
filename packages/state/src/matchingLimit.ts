import {
  attributionRequired,
  type BucketRef,
  type BudgetedPolicy,
  bucketKey,
  hashedValueSubject,
  OTHERS_SUBJECT,
  type RateLimitedPolicy,
  UNKNOWN_SUBJECT,
  unitOf,
  valueSubject,
} from '@weighbridge/budget';
import {
  BudgetMode,
  Enforcement,
  type FurtherLimit,
  type PolicyCounter,
  UnknownAttribution,
} from '@weighbridge/contracts';
import { type Attribution, attributionWith, compileModelPatterns } from '@weighbridge/domain';
import { isByAttribution, type LimitCounter } from './limitColumn.ts';

/** Which attempts a further limit of a policy counts, and in which of its counters. */
export interface LimitMatch {
  readonly id: string;
  readonly counts: (model: string) => boolean;
  /** It counts any model. */
  readonly countsAll: boolean;
  /** Attribution that must be equal. */
  readonly when: readonly (readonly [name: string, value: string])[];
  /** The counter of an attempt: its subject, and the caller's value if it is of one; undefined: none counts it. Throws a 400 if one must. */
  readonly counterOf: (attribution: Attribution) => LimitSubject | undefined;
}

/** An amount of a further limit, in the form that matching an attempt needs. */
export interface MatchingLimit extends LimitMatch, Pick<BudgetedPolicy, 'enforcement' | 'isHard'> {
  /** What the attempt reserves from. */
  readonly budgetOf: (of: LimitSubject) => BudgetedPolicy;
}

/** The rates of a further limit, in the same form. */
export interface MatchingRates extends LimitMatch {
  /** What the attempt counts in. */
  readonly rateOf: (of: LimitSubject) => RateLimitedPolicy;
}

export interface LimitSubject {
  readonly subject: string;
  readonly value: string | undefined;
}

interface LimitOwner {
  readonly counter: PolicyCounter;
  readonly isGoverning: boolean;
  readonly keyId: string;
}

/** Undefined if it lacks its bucket, or is of rates. */
export function matchingLimit(limit: FurtherLimit, owner: LimitOwner): MatchingLimit | undefined {
  const { bucket } = limit;
  if (!bucket || isOfRates(limit)) return undefined;
  const enforcement = enforcementOf(limit);
  const isHard = owner.counter.budgetMode === BudgetMode.HARD;
  return {
    ...limitMatch(limit, bucket),
    enforcement,
    isHard,
    budgetOf: (of) => budgetOf(limit, bucket, { ...owner, enforcement, isHard }, of),
  };
}

/** Undefined if it lacks its bucket, or is of an amount. */
export function matchingRates(limit: FurtherLimit, keyId: string): MatchingRates | undefined {
  const { bucket } = limit;
  if (!bucket || !isOfRates(limit)) return undefined;
  return { ...limitMatch(limit, bucket), rateOf: (of) => rateOf(limit, bucket, keyId, of) };
}

function isOfRates({ requestsPerMinute, tokensPerMinute, maxParallel }: FurtherLimit): boolean {
  return (requestsPerMinute ?? tokensPerMinute ?? maxParallel) !== undefined;
}

function enforcementOf({ enforcement }: FurtherLimit): 'enforce' | 'shadow' {
  return enforcement === Enforcement.ENFORCE ? 'enforce' : 'shadow';
}

function limitMatch(limit: FurtherLimit, bucket: BucketRef): LimitMatch {
  return {
    id: limit.id,
    counts: compileModelPatterns(limit.models),
    countsAll: limit.models.length === 0,
    when: Object.entries(limit.when),
    counterOf: subjects(limit, bucket),
  };
}

/** Whether a limit counts attempts with this attribution, on the models that it counts. */
export function isWhen({ when }: Pick<LimitMatch, 'when'>, attribution: Attribution): boolean {
  for (const [name, value] of when) if (textOf(attribution, name) !== value) return false;
  return true;
}

function subjects({ counterScope, unknown, name }: FurtherLimit, bucket: BucketRef): LimitMatch['counterOf'] {
  if (!isByAttribution({ counter_scope: counterScope })) {
    const own = { subject: bucket.subject, value: undefined };
    return () => own;
  }
  const attributionName = attributionOf(counterScope);
  const kind = kindOfValues(counterScope);
  return (attribution) => {
    const ofValue = valueSubjectOf(attribution, attributionName, kind);
    if (ofValue) return ofValue;
    if (unknown === UnknownAttribution.SKIP) return undefined;
    if (unknown === UnknownAttribution.REFUSE) throw attributionRequired(name, bucket, attributionName);
    return { subject: UNKNOWN_SUBJECT, value: undefined };
  };
}

/** The name of the attribution that a counter scope has counters for, such as `labels.tier`. */
function attributionOf(counterScope: string): string {
  return counterScope.replace(/^label:/, 'labels.');
}

/** What the subjects of a counter scope by attribution begin with. */
function kindOfValues(counterScope: string): string {
  return counterScope.startsWith('label:') ? 'label' : counterScope;
}

/** The subject of the counter for a value that an operator names: that of the attempts which have it. Undefined: there is none for it. */
export function subjectOfValue(counterScope: string, value: string): string | undefined {
  const name = attributionOf(counterScope);
  return valueSubjectOf(attributionWith(name, value), name, kindOfValues(counterScope))?.subject;
}

/** The subject of the counter of a further limit for attempts with this attribution and maybe more. Undefined: it depends on the rest. */
export function subjectIn(
  { limit, bucket }: Pick<LimitCounter, 'limit' | 'bucket'>,
  attribution: Attribution,
): string | undefined {
  if (!isByAttribution(limit)) return bucket.subject;
  const { counter_scope: scope } = limit;
  return valueSubjectOf(attribution, attributionOf(scope), kindOfValues(scope))?.subject;
}

function valueSubjectOf(attribution: Attribution, name: string, kind: string): LimitSubject | undefined {
  const text = textOf(attribution, name);
  if (text === undefined || text === '') return undefined;
  const hash = wholeHash(attribution, name);
  return { subject: hash ? hashedValueSubject(kind, hash) : valueSubject(kind, text), value: text };
}

function budgetOf(
  { id, name, models, counterScope, windowEndMs, firstUseMs }: FurtherLimit,
  { policyId, counterVersion, windowStartMs }: BucketRef,
  { isGoverning, keyId, enforcement, isHard }: LimitOwner & Pick<BudgetedPolicy, 'enforcement' | 'isHard'>,
  { subject, value }: LimitSubject,
): BudgetedPolicy {
  const counterAt = (ofSubject: string, limit: BudgetedPolicy['limit']): BudgetedPolicy => {
    const bucket = { policyId, counterVersion, subject: ofSubject, windowStartMs };
    return {
      bucket,
      bucketKey: bucketKey(bucket),
      enforcement,
      isHard,
      isGoverning,
      windowEndMs: windowEndMs === undefined ? undefined : Number(windowEndMs),
      ...(firstUseMs > 0n && { firstUseMs: Number(firstUseMs) }),
      limit,
    };
  };
  const named = { id, name, models, scope: counterScope, unit: unitOf({ policyId }) };
  if (value === undefined) return counterAt(subject, { ...named, value });
  const others = counterAt(OTHERS_SUBJECT, { ...named, value: undefined });
  return counterAt(subject, { ...named, value, opening: { keyId, others } });
}

function rateOf(
  limit: FurtherLimit,
  { policyId, counterVersion }: BucketRef,
  keyId: string,
  { subject, value }: LimitSubject,
): RateLimitedPolicy {
  const { id, name, models, counterScope: scope, maxCounters, maxParallel, requestsPerMinute } = limit;
  const { tokensPerMinute } = limit;
  const named = { id, name, models, scope };
  const counterAt = (ofSubject: string, ofLimit: RateLimitedPolicy['limit']): RateLimitedPolicy => ({
    policyId,
    counterVersion,
    subject: ofSubject,
    counterKey: `${policyId}/${counterVersion}/${ofSubject}`,
    requestsPerMinute,
    tokensPerMinute: tokensPerMinute === undefined ? undefined : Number(tokensPerMinute),
    maxParallel,
    enforcement: enforcementOf(limit),
    limit: ofLimit,
  });
  if (value === undefined) return counterAt(subject, { ...named, value });
  const others = counterAt(OTHERS_SUBJECT, { ...named, value: undefined });
  return counterAt(subject, { ...named, value, opening: { keyId, maxCounters, others } });
}

/** A value of attribution by its name, such as `user` or `labels.tier`. */
function textOf(attribution: Attribution, name: string): string | undefined {
  switch (name) {
    case 'user':
    case 'team':
    case 'project':
    case 'env':
    case 'namespace':
    case 'workload':
      return attribution[name];
    case 'session':
      return attribution.session?.text;
    case 'workload_type':
      return attribution.workloadType?.text;
    default: {
      const label = name.slice('labels.'.length);
      return Object.hasOwn(attribution.labels, label) ? attribution.labels[label] : undefined;
    }
  }
}

/** From this length on, in UTF-16 code units, a text may be cut. */
const MAY_BE_CUT = 256;

/** The hash of a value whose text may be cut. */
function wholeHash({ session }: Attribution, name: string): Uint8Array | undefined {
  return name === 'session' && session && session.text.length >= MAY_BE_CUT ? session.sha256 : undefined;
}
