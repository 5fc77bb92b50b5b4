import { createHash } from 'node:crypto';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  BudgetMode,
  CacheScope,
  type ConnectorSchema,
  Dialect,
  Enforcement,
  ForeignObjects,
  type KeySchema,
  type ModelSchema,
  OnDisconnect,
  type PolicySchema,
  type ProfileSchema,
  RecordFeedbackResponse_Result,
  Route,
  Strategy,
  Translation,
} from '@weighbridge/contracts';
import type { CacheSetting, LockedAttribution, RoutingProfile } from '@weighbridge/domain';
import type { FeedbackResult } from '@weighbridge/evidence';
import { priceMessage } from '@weighbridge/state';
import type { CacheSettings } from '../../shared/schemas.ts';
import type { Scope } from '../../shared/scopes.ts';
import { benchmarkScores } from '../catalog/benchmarkScores.ts';
import type { PricedModel } from '../catalog/catalog.service.ts';
import type { NegotiatedPrice } from '../connectors/connectorPrices.service.ts';
import type { Identity, UsableConnector } from '../connectors/connectors.service.ts';
import { headersOf, type RouteName, routesOf } from '../connectors/providers.ts';
import type { KeyRow } from '../keys/keys.service.ts';
import type { Counter, KeyCounters, PolicyRow, Replacement } from '../policies/policies.service.ts';

/** Rows of the control plane as the protobuf messages that proxies get. */

export function connectorMessage(
  row: UsableConnector,
  negotiated: readonly NegotiatedPrice[],
): MessageInitShape<typeof ConnectorSchema> {
  return {
    id: row.id,
    provider: row.provider,
    dialect: row.dialect === 'anthropic' ? Dialect.ANTHROPIC : Dialect.OPENAI,
    baseUrl: row.base_url,
    credential: row.credential,
    identity: identityMessage(row.identity),
    priority: row.priority,
    models: row.models,
    upstreamNames: row.upstream_names as Record<string, string>,
    weight: row.weight,
    prices: Object.fromEntries(
      negotiated.map(({ modelId, version, price }) => [modelId, priceMessage(version, price)]),
    ),
    routes: routesOf(row).map((route) => ROUTES[route]),
    allowPrivateAddress: row.allowPrivateAddress,
    ...(row.max_parallel !== null && { maxParallel: row.max_parallel }),
    ...(row.connect_timeout_ms !== null && { connectTimeoutMs: row.connect_timeout_ms }),
    ...(row.first_byte_timeout_ms !== null && { firstByteTimeoutMs: row.first_byte_timeout_ms }),
    ...(row.chunk_timeout_ms !== null && { chunkTimeoutMs: row.chunk_timeout_ms }),
    onDisconnect: ON_DISCONNECT[row.on_disconnect ?? ''] ?? OnDisconnect.UNSPECIFIED,
    forwardHeaders: [...headersOf(row.provider), ...row.forward_headers],
  };
}

function identityMessage(identity: Identity | undefined) {
  if (!identity) return { case: undefined };
  if (identity.kind === 'aws') {
    const { kind: _kind, ...value } = identity;
    return { case: 'aws' as const, value };
  }
  if (identity.kind === 'google') {
    const { kind: _kind, ...value } = identity;
    return { case: 'google' as const, value };
  }
  if (identity.kind === 'azure') {
    const { kind: _kind, ...value } = identity;
    return { case: 'azure' as const, value };
  }
  const { kind: _kind, clientAuthentication, ...client } = identity;
  const value = { ...client, basicAuthentication: clientAuthentication === 'basic' };
  return { case: 'oauth' as const, value };
}

const ON_DISCONNECT: Readonly<Record<string, OnDisconnect>> = {
  cancel: OnDisconnect.CANCEL,
  drain: OnDisconnect.DRAIN,
};

const ROUTES: Record<RouteName, Route> = {
  chat_completions: Route.CHAT_COMPLETIONS,
  responses: Route.RESPONSES,
  messages: Route.MESSAGES,
  embeddings: Route.EMBEDDINGS,
  generate_content: Route.GENERATE_CONTENT,
  embed_content: Route.EMBED_CONTENT,
  completions: Route.COMPLETIONS,
  converse: Route.CONVERSE,
};

export function feedbackResult(result: FeedbackResult): RecordFeedbackResponse_Result {
  return FEEDBACK_RESULTS[result];
}

const FEEDBACK_RESULTS: Record<FeedbackResult, RecordFeedbackResponse_Result> = {
  counted: RecordFeedbackResponse_Result.COUNTED,
  pending: RecordFeedbackResponse_Result.PENDING,
  unknown: RecordFeedbackResponse_Result.UNKNOWN,
  too_many: RecordFeedbackResponse_Result.TOO_MANY,
};

export function modelMessage(row: PricedModel): MessageInitShape<typeof ModelSchema> {
  const { avg_score } = benchmarkScores(row.benchmark_scores as Record<string, number>);
  return {
    id: row.id,
    provider: row.provider,
    upstreamName: row.upstream_name,
    price: priceMessage(row.version, row.price),
    contextWindow: row.context_window,
    ...(row.max_output_tokens !== null && { maxOutputTokens: row.max_output_tokens }),
    ...(avg_score !== undefined && { score: avg_score }),
    capabilities: row.capabilities,
    otherNames: row.other_names,
    own: row.own,
  };
}

export function profileMessage(profile: RoutingProfile): MessageInitShape<typeof ProfileSchema> {
  const { id, name, strategy, targets, constraints, cache, pinsPromptCacheKeys, translatesStrictly } =
    profile;
  const { contextWindow, maxInputNanoUsd, maxOutputNanoUsd, minScore, capabilities } = constraints;
  return {
    id,
    name,
    strategy: STRATEGIES[strategy],
    targets: targets.map(({ model, weight }) => ({ model, weight })),
    constraints: {
      ...(contextWindow !== undefined && { contextWindow: BigInt(contextWindow) }),
      ...(maxInputNanoUsd !== undefined && { maxInputNanoUsd }),
      ...(maxOutputNanoUsd !== undefined && { maxOutputNanoUsd }),
      ...(minScore !== undefined && { minScore }),
      capabilities: [...(capabilities ?? [])],
    },
    ...(cache && { cache: cacheMessage(cache) }),
    ...(pinsPromptCacheKeys && { pinPromptCacheKeys: true }),
    ...(translatesStrictly && { translation: Translation.STRICT }),
  };
}

const STRATEGIES: Readonly<Record<RoutingProfile['strategy'], Strategy>> = {
  ordered: Strategy.ORDERED,
  weighted: Strategy.WEIGHTED,
  cheapest: Strategy.CHEAPEST,
  fastest: Strategy.FASTEST,
  best_score: Strategy.BEST_SCORE,
  adaptive: Strategy.ADAPTIVE,
};

export function keyMessage(
  row: KeyRow,
  counters: readonly Counter[],
  { team, replacements }: Pick<KeyCounters, 'team'> & { readonly replacements: readonly Replacement[] },
  now: Date,
): MessageInitShape<typeof KeySchema> {
  const attribution = row.attribution as LockedAttribution;
  const profileId = counters.find(({ policy }) => policy.profile_id !== null)?.policy.profile_id;
  return {
    id: row.id,
    principalId: row.principal_id,
    disabled: row.disabled,
    isOperator: row.scopes.includes('operator' satisfies Scope),
    ...(row.expires_at && { expiresAtMs: BigInt(row.expires_at.getTime()) }),
    attribution: { ...attribution, labels: { ...attribution.labels } },
    ...(profileId && { profileId }),
    ...(team && { teamId: team.id, teamFrozen: team.isFrozen }),
    policies: counterMessages(counters, now),
    replacements: replacements.map((replacement) => ({
      profileId: replacement.profileId,
      policies: counterMessages(replacement.counters, now),
    })),
  };
}

function counterMessages(counters: readonly Counter[], now: Date) {
  return counters.map(({ policy, bucket, window }) => ({
    ...settingsMessage(policy),
    ...(window.end && {
      windowEndMs: BigInt(window.end.getTime()),
      windowRemainingMs: BigInt(Math.max(0, window.end.getTime() - now.getTime())),
    }),
    bucket,
  }));
}

export function policyMessage(policy: PolicyRow): MessageInitShape<typeof PolicySchema> {
  return { id: policy.id, settings: settingsMessage(policy) };
}

/** What a policy says to every key that it counts for. */
function settingsMessage(policy: PolicyRow) {
  return {
    enforcement: ENFORCEMENT[policy.enforcement],
    budgetMode: policy.budget_mode === 'hard' ? BudgetMode.HARD : BudgetMode.BALANCED,
    ...(policy.limit_nano_usd !== null && { limitNanoUsd: policy.limit_nano_usd }),
    ...(policy.requests_per_minute !== null && { requestsPerMinute: policy.requests_per_minute }),
    ...(policy.tokens_per_minute !== null && { tokensPerMinute: policy.tokens_per_minute }),
    ...(policy.max_parallel !== null && { maxParallel: policy.max_parallel }),
    allowedModels: policy.allowed_models,
    hardAllowFields: policy.hard_allow_fields,
    foreignObjects: FOREIGN_OBJECTS[policy.foreign_objects],
    translation: TRANSLATION[policy.translation],
    structure: structureOf(policy),
    ...policyCache(policy.cache as CacheSettings | null),
  };
}

/** Equal while the policy gives its keys the same policies, counters and profile. Never 0. */
function structureOf(policy: PolicyRow): bigint {
  const { counter_version, parent_policy_id, profile_id, exhausted_policy_id, exhausted_profile_id } = policy;
  const parts = [counter_version, parent_policy_id, profile_id, exhausted_policy_id, exhausted_profile_id];
  const hash = createHash('sha256').update(JSON.stringify(parts)).digest();
  return hash.readBigUInt64LE() || 1n;
}

function policyCache(cache: CacheSettings | null) {
  return cache && { cache: cacheMessage({ scope: cache.scope, ttlMs: cache.ttl_seconds * 1_000 }) };
}

function cacheMessage({ scope, ttlMs }: CacheSetting) {
  return {
    scope: scope === 'policy' ? CacheScope.POLICY : CacheScope.PRINCIPAL,
    ttlSeconds: Math.round(ttlMs / 1_000),
  };
}

const FOREIGN_OBJECTS = { any: ForeignObjects.ANY, own: ForeignObjects.OWN };
const TRANSLATION = { lenient: Translation.LENIENT, strict: Translation.STRICT };
const ENFORCEMENT = { enforce: Enforcement.ENFORCE, shadow: Enforcement.SHADOW, off: Enforcement.OFF };
