import type { MessageInitShape } from '@bufbuild/protobuf';
import { type BucketRef, type BudgetedPolicy, bucketKey, type RateLimitedPolicy } from '@weighbridge/budget';
import {
  BudgetMode,
  Enforcement,
  ForeignObjects,
  type Key,
  type KeySchema,
  type PolicyCounter,
  Translation,
} from '@weighbridge/contracts';
import {
  type AttributionSources,
  compileModelPatterns,
  type LockedAttribution,
  NOTHING_LOCKED,
} from '@weighbridge/domain';
import { cacheSetting, type PolicyCacheSetting } from './cacheRule.ts';
import { type MatchingLimit, type MatchingRates, matchingLimit, matchingRates } from './matchingLimit.ts';
import { type CounterColumns, counterMessage } from './policy.ts';

/** The most keys that one call looks up. Both ends keep to it. */
export const MAX_KEYS_PER_CALL = 200;

/** A key in the form that admission needs. Immutable: a newer response from the control plane makes a new one. */
export interface ResolvedKey {
  readonly id: string;
  readonly principalId: string;
  /** The team of its principal at present; empty if it is in none. */
  readonly teamId: string;
  readonly disabled: boolean;
  /** Its team, or one above, is frozen. */
  readonly isFrozen: boolean;
  readonly isOperator: boolean;
  readonly expiresAtMs: number | undefined;
  readonly attribution: LockedAttribution;
  /** The routing profile behind `router/default`, if one of the key's policies names it. */
  readonly profileId: string | undefined;
  /** The governing policy, then its parents. */
  readonly policies: readonly ResolvedPolicy[];
  /** Those with a spending limit. */
  readonly budgets: readonly BudgetedPolicy[];
  /** The further limits of its policies: which of them count an attempt depends on the attempt. */
  readonly limits: readonly MatchingLimit[];
  /** Where its policies find attribution beside the headers of this service; undefined: nowhere. */
  readonly attributionSources: AttributionSources | undefined;
  /** An enforced budget is hard: no attempt may cost more than its reservation. */
  readonly isHard: boolean;
  /** What requests under its hard budgets may hold although its cost is not bounded: what each of these policies allows. */
  readonly hardAllowFields: ReadonlySet<string>;
  /** A policy allows only certain models. */
  readonly restrictsModels: boolean;
  /** A policy refuses stored objects that were made outside the service. */
  readonly refusesForeignObjects: boolean;
  /** A policy refuses requests whose translation would change or drop something. */
  readonly translatesStrictly: boolean;
  /** A policy has translated requests ask the vendor to cache their prompts. */
  readonly cachesPrompts: boolean;
  /** How long a request waits for accounts that have nothing left, and in what order: as the governing policy says. */
  readonly queueMs: number;
  readonly priority: number;
  /** Those with a limit on requests per minute, tokens per minute or parallel requests. */
  readonly rates: readonly RateLimitedPolicy[];
  /** The rates of further limits: which of them count an attempt depends on the attempt. */
  readonly limitRates: readonly MatchingRates[];
  /** The response cache setting of the nearest policy that has one. */
  readonly cache: PolicyCacheSetting | undefined;
  /** Time from reading the key until the first of their windows ends; undefined if none ends. */
  readonly windowRemainingMs: number | undefined;
  /** The same as an instant by the control plane's clock, in Unix milliseconds. */
  readonly windowEndMs: number | undefined;
  /** The profile that requests go by, whatever model they name; undefined: they choose. */
  readonly routesBy: string | undefined;
  /** How many policies others took the place of, because their budgets were used up: `on_exhausted`. */
  readonly fallbacks: number;
  /** The key as it is once the budget of its governing policy is used up; undefined: its requests are refused then. */
  readonly onExhausted: ResolvedKey | undefined;
}

interface ResolvedPolicy {
  readonly bucket: BucketRef;
  readonly allows: (model: string) => boolean;
}

export function resolvedKey(key: Key): ResolvedKey {
  const counters = [key.policies, ...key.replacements.map(({ policies }) => policies)].flat();
  const windows = counters.flatMap((counter) => [counter, ...counter.limits]);
  const shared = {
    windowRemainingMs: least(windows.map(({ windowRemainingMs }) => windowRemainingMs)),
    windowEndMs: least(windows.map(({ windowEndMs }) => windowEndMs)),
  };
  let onExhausted: ResolvedKey | undefined;
  for (let fallbacks = key.replacements.length; fallbacks > 0; fallbacks--) {
    const { policies = [], profileId } = key.replacements[fallbacks - 1] ?? {};
    onExhausted = { ...governedKey(key, policies), ...shared, routesBy: profileId, fallbacks, onExhausted };
  }
  return { ...governedKey(key, key.policies), ...shared, routesBy: undefined, fallbacks: 0, onExhausted };
}

/** The same key after as many fallbacks, or after as many as there are. */
export function afterFallbacks(key: ResolvedKey, fallbacks: number): ResolvedKey {
  let found = key;
  while (found.onExhausted && found.fallbacks < fallbacks) found = found.onExhausted;
  return found;
}

type GovernedKey = Omit<
  ResolvedKey,
  'windowRemainingMs' | 'windowEndMs' | 'routesBy' | 'fallbacks' | 'onExhausted'
>;

function governedKey(key: Key, policies: readonly PolicyCounter[]): GovernedKey {
  const counters = policies.filter(hasBucket);
  const budgets = counters.flatMap((counter, at) => budgetedPolicy(counter, at === 0) ?? []);
  const limits = counters.flatMap((counter, at) =>
    counter.limits.flatMap(
      (limit) => matchingLimit(limit, { counter, isGoverning: at === 0, keyId: key.id }) ?? [],
    ),
  );
  return {
    id: key.id,
    principalId: key.principalId,
    teamId: key.teamId,
    disabled: key.disabled,
    isFrozen: key.teamFrozen,
    isOperator: key.isOperator,
    expiresAtMs: key.expiresAtMs === undefined ? undefined : Number(key.expiresAtMs),
    attribution: lockedAttribution(key),
    profileId: key.profileId,
    policies: counters.map((counter) => ({
      bucket: counter.bucket,
      allows: compileModelPatterns(allowedModels(counter)),
    })),
    budgets,
    limits,
    attributionSources: attributionSources(counters),
    isHard: [...budgets, ...limits].some(({ isHard, enforcement }) => isHard && enforcement === 'enforce'),
    hardAllowFields: hardAllowFields(counters),
    refusesForeignObjects: counters.some(({ foreignObjects }) => foreignObjects === ForeignObjects.OWN),
    translatesStrictly: counters.some(({ translation }) => translation === Translation.STRICT),
    cachesPrompts: counters.some(({ autoCache }) => autoCache),
    restrictsModels: counters.some((counter) => allowedModels(counter).length > 0),
    queueMs: counters[0]?.queueMs ?? 0,
    priority: counters[0]?.priority ?? 0,
    rates: counters.flatMap((counter) => rateLimitedPolicy(counter) ?? []),
    limitRates: counters.flatMap((counter) =>
      counter.limits.flatMap((limit) => matchingRates(limit, key.id) ?? []),
    ),
    cache: nearestCache(counters),
  };
}

function allowedModels({
  allowedModels: patterns,
  allowedModelsBesideLimits: instead,
}: Counter): readonly string[] {
  return instead?.patterns ?? patterns;
}

/** The headers that the nearest policy maps which maps any. */
function attributionSources(counters: readonly Counter[]): AttributionSources | undefined {
  const mapped = counters.find(({ attributionHeaders }) => Object.keys(attributionHeaders).length > 0);
  const userFromBody = counters.some((counter) => counter.userFromBody);
  if (!mapped && !userFromBody) return undefined;
  return { headers: new Map(Object.entries(mapped?.attributionHeaders ?? {})), userFromBody };
}

const NO_FIELDS: ReadonlySet<string> = new Set();

function hardAllowFields(counters: readonly Counter[]): ReadonlySet<string> {
  const lists = counters
    .filter((counter) => counter.budgetMode === BudgetMode.HARD && enforcementOf(counter) === 'enforce')
    .map((counter) => counter.hardAllowFields);
  const [first = [], ...others] = lists;
  const fields = first.filter((field) => others.every((list) => list.includes(field)));
  return fields.length > 0 ? new Set(fields) : NO_FIELDS;
}

function nearestCache(counters: readonly Counter[]): PolicyCacheSetting | undefined {
  const nearest = counters.find(({ cache }) => cache);
  return nearest?.cache && { ...cacheSetting(nearest.cache), policyId: nearest.bucket.policyId };
}

function least(values: readonly (bigint | undefined)[]): number | undefined {
  const known = values.flatMap((value) => (value === undefined ? [] : Number(value)));
  return known.length > 0 ? Math.min(...known) : undefined;
}

type Counter = PolicyCounter & { readonly bucket: BucketRef };

function hasBucket(counter: PolicyCounter): counter is Counter {
  return counter.bucket !== undefined;
}

function budgetedPolicy(counter: Counter, isGoverning: boolean): BudgetedPolicy | undefined {
  const { bucket, limitNanoUsd, windowEndMs, budgetMode } = counter;
  const enforcement = enforcementOf(counter);
  if (!enforcement || limitNanoUsd === undefined) return undefined;
  return {
    bucket,
    bucketKey: bucketKey(bucket),
    enforcement,
    isHard: budgetMode === BudgetMode.HARD,
    isGoverning,
    windowEndMs: windowEndMs === undefined ? undefined : Number(windowEndMs),
  };
}

function rateLimitedPolicy(counter: Counter): RateLimitedPolicy | undefined {
  const { requestsPerMinute, tokensPerMinute, maxParallel } = counter;
  const { policyId, counterVersion, subject } = counter.bucket;
  const enforcement = enforcementOf(counter);
  const isLimited = (requestsPerMinute ?? tokensPerMinute ?? maxParallel) !== undefined;
  if (!enforcement || !isLimited) return undefined;
  return {
    policyId,
    counterVersion,
    subject,
    counterKey: `${policyId}/${counterVersion}/${subject}`,
    requestsPerMinute,
    tokensPerMinute: tokensPerMinute === undefined ? undefined : Number(tokensPerMinute),
    maxParallel,
    enforcement,
  };
}

function enforcementOf({ enforcement }: PolicyCounter): 'enforce' | 'shadow' | undefined {
  if (enforcement === Enforcement.ENFORCE) return 'enforce';
  return enforcement === Enforcement.SHADOW ? 'shadow' : undefined;
}

/** An empty text locks nothing. */
function lockedAttribution({ attribution }: Key): LockedAttribution {
  const { user, team, project, env, labels = {} } = attribution ?? {};
  const lockedLabels = Object.entries(labels).filter(([, value]) => value !== '');
  if (!(user || team || project || env) && lockedLabels.length === 0) return NOTHING_LOCKED;
  return {
    ...(user && { user }),
    ...(team && { team }),
    ...(project && { project }),
    ...(env && { env }),
    labels: Object.fromEntries(lockedLabels),
  };
}

/** The columns of a key that proxies need. `expires_at` is also that of the secret that was looked up. */
export interface KeyColumns {
  readonly id: string;
  readonly principal_id: string;
  readonly disabled: boolean;
  readonly scopes: readonly string[];
  readonly expires_at: Date | null;
  /** A `LockedAttribution`. */
  readonly attribution: unknown;
}

/** What a key's requests count against, and what replaces that once a budget is used up. */
export interface KeyChain {
  readonly counters: readonly CounterColumns[];
  readonly team: { readonly id: string; readonly isFrozen: boolean } | undefined;
  readonly replacements: readonly {
    readonly profileId: string;
    readonly counters: readonly CounterColumns[];
  }[];
}

/** The key as proxies get it when they look it up. */
export function keyMessage(
  row: KeyColumns,
  { counters, team, replacements }: KeyChain,
  now: Date,
): MessageInitShape<typeof KeySchema> {
  const attribution = row.attribution as LockedAttribution;
  const profileId = counters.find(({ policy }) => policy.profile_id !== null)?.policy.profile_id;
  return {
    id: row.id,
    principalId: row.principal_id,
    disabled: row.disabled,
    isOperator: row.scopes.includes('operator'),
    ...(row.expires_at && { expiresAtMs: BigInt(row.expires_at.getTime()) }),
    attribution: { ...attribution, labels: { ...attribution.labels } },
    ...(profileId && { profileId }),
    ...(team && { teamId: team.id, teamFrozen: team.isFrozen }),
    policies: counters.map((counter) => counterMessage(counter, now)),
    replacements: replacements.map((replacement) => ({
      profileId: replacement.profileId,
      policies: replacement.counters.map((counter) => counterMessage(counter, now)),
    })),
  };
}
