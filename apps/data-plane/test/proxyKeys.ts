import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { bucketKey, furtherLimitId } from '@weighbridge/budget';
import {
  BucketRefSchema,
  Enforcement,
  type FurtherLimitSchema,
  KeySchema,
  type PolicyCounterSchema,
} from '@weighbridge/contracts';
import { tokenSha256 } from '@weighbridge/domain';
import { type ResolvedKey, resolvedKey } from '@weighbridge/state';

export const ALICE = `sk-svc-alice-${'a'.repeat(32)}`;
export const BOB = `sk-svc-bob-${'b'.repeat(32)}`;
/** Its policy allows `mock/echo` alone. */
export const ONE_MODEL = `sk-svc-narrow-${'c'.repeat(32)}`;
/** As `SPENT`, with a hard budget. */
export const HARD = `sk-svc-hard-${'f'.repeat(32)}`;
/** Its policy has a budget with no headroom, unless `headroomNanoUsd` says otherwise. */
export const SPENT = `sk-svc-spent-${'d'.repeat(32)}`;
/** Its policy refuses objects that were made outside. */
export const OWN_ONLY = `sk-svc-strict-${'g'.repeat(32)}`;
/** Its policy allows 60 requests and 6,000 tokens a minute. */
export const RATED = `sk-svc-rated-${'e'.repeat(32)}`;
/** Its requests wait for accounts at their limits. */
export const PATIENT = `sk-svc-patient-${'h'.repeat(32)}`;

/** Its policy has a budget and the further limits that a test gives, whose buckets the test fills. */
export const LIMITED = `sk-svc-limited-${'h'.repeat(32)}`;

export interface TestLimit {
  readonly id: string;
  readonly models: readonly string[];
  /** By default `policy`. */
  readonly counterScope?: string;
  /** It is of these, and of no amount. */
  readonly rates?: Pick<
    MessageInitShape<typeof FurtherLimitSchema>,
    'requestsPerMinute' | 'tokensPerMinute' | 'maxParallel'
  >;
}

/** Where the policy of `LIMITED` finds attribution. */
export interface TestSources {
  readonly attributionHeaders?: Record<string, string>;
  readonly userFromBody?: boolean;
}

/** What a test gives policies when it starts the proxy. */
interface TestPolicy {
  readonly restrictsModels?: boolean;
  readonly limits?: readonly TestLimit[];
  readonly sources?: TestSources;
}

/** What a test sets on the proxy that its keys depend on. */
interface KeySettings {
  /** What a look-up of a key waits for. */
  readonly keyLookup: Promise<unknown> | undefined;
  /** The policy of all keys allows certain models. */
  readonly allows: (model: string) => boolean;
  readonly policyCache: ResolvedKey['cache'];
}

/** The keys, under the policy that the test sets on the proxy. */
export function keysOf(proxy: KeySettings, { restrictsModels, limits = [], sources = {} }: TestPolicy) {
  const keys = new Map([
    [hash(ALICE), resolved('alice')],
    [hash(BOB), resolved('bob')],
    [hash(ONE_MODEL), resolved('narrow', { allows: (model) => model === 'mock/echo' })],
    [hash(SPENT), spentKey('spent')],
    [hash(HARD), spentKey('hard')],
    [hash(RATED), ratedKey()],
    [hash(PATIENT), { ...resolved('patient'), queueMs: 60_000 }],
    [hash(LIMITED), limitedKey(limits, sources)],
    [hash(OWN_ONLY), { ...resolved('strict'), refusesForeignObjects: true }],
  ]);
  const keyOf = async (sha256: Uint8Array) => {
    if (proxy.keyLookup) await proxy.keyLookup;
    const key = keys.get(Buffer.from(sha256).toString('hex'));
    const policies = key?.policies.map((policy) => ({
      ...policy,
      allows: (model: string) => policy.allows(model) && proxy.allows(model),
    }));
    const restricted = restrictsModels === undefined ? {} : { restrictsModels };
    return key && policies && { ...key, policies, cache: proxy.policyCache, ...restricted };
  };
  return { find: keyOf, refresh: keyOf };
}

function hash(token: string): string {
  return Buffer.from(tokenSha256(token)).toString('hex');
}

function resolved(principalId: string, policy: Partial<ResolvedKey['policies'][number]> = {}): ResolvedKey {
  return {
    id: `key_${principalId}`,
    principalId,
    disabled: false,
    teamId: '',
    isFrozen: false,
    isOperator: false,
    expiresAtMs: undefined,
    attribution: principalId === 'bob' ? { team: 'locked' } : {},
    profileId: undefined,
    policies: [
      {
        bucket: create(BucketRefSchema, {
          policyId: 'pol_1',
          counterVersion: 1,
          subject: principalId,
          windowStartMs: 0n,
        }),
        allows: () => true,
        ...policy,
      },
    ],
    budgets: [],
    limits: [],
    attributionSources: undefined,
    isHard: false,
    hardAllowFields: new Set(),
    refusesForeignObjects: false,
    translatesStrictly: false,
    cachesPrompts: false,
    restrictsModels: false,
    queueMs: 0,
    priority: 0,
    rates: [],
    limitRates: [],
    cache: undefined,
    windowRemainingMs: undefined,
    windowEndMs: undefined,
    routesBy: undefined,
    fallbacks: 0,
    onExhausted: undefined,
  };
}

function ratedKey(): ResolvedKey {
  const counter = { policyId: 'pol_1', counterVersion: 1, subject: 'rated', counterKey: 'pol_1/1/rated' };
  const limits = { requestsPerMinute: 60, tokensPerMinute: 6_000, maxParallel: undefined };
  return { ...resolved('rated'), rates: [{ ...counter, ...limits, enforcement: 'enforce' }] };
}

/** A key with an exhausted budget. */
function spentKey(mode: 'spent' | 'hard'): ResolvedKey {
  const key = resolved(mode);
  const budgets = key.policies.map(({ bucket }) => ({
    bucket,
    bucketKey: bucketKey(bucket),
    enforcement: 'enforce' as const,
    isHard: mode === 'hard',
    isGoverning: true,
    windowEndMs: undefined,
  }));
  return { ...key, budgets, isHard: mode === 'hard' };
}

function limitedKey(limits: readonly TestLimit[], sources: TestSources): ResolvedKey {
  const bucket = { policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: 0n };
  const policy: MessageInitShape<typeof PolicyCounterSchema> = {
    bucket,
    enforcement: Enforcement.ENFORCE,
    limitNanoUsd: 1n,
    ...sources,
    limits: limits.map(({ id, models, counterScope = 'policy', rates }) => ({
      id,
      bucket: { ...bucket, policyId: furtherLimitId(bucket.policyId, id) },
      name: `limit ${id}`,
      models: [...models],
      counterScope,
      enforcement: Enforcement.ENFORCE,
      ...(rates && { ...rates, maxCounters: 100 }),
    })),
  };
  return resolvedKey(create(KeySchema, { id: 'key_limited', principalId: 'limited', policies: [policy] }));
}
