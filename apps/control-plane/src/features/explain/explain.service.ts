import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import {
  furthestStage,
  type LockedAttribution,
  moneyFromNano,
  ROUTER_PREFIX,
  type RoutingProfile,
  type Selection,
  type Stage,
  type Strata,
  type Strategy,
  selectModels,
  workloadTypeKey,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { RouteName } from '@weighbridge/state';
import type { Caller } from '../../shared/caller.ts';
import { routeTaken } from '../connectors/providers.ts';
import { visibleKey } from '../keys/keys.service.ts';
import type { ModelDeps } from '../models/models.service.ts';
import {
  countersOfKey,
  countersWithoutKey,
  type PolicyRow,
  policyChain,
} from '../policies/policies.service.ts';
import { existingProfile, routingProfileOf } from '../profiles/profiles.service.ts';
import { type Account, candidatesOf } from './candidates.service.ts';
import type { ExplainNameRequest, ExplainRequest, Explanation } from './explain.schemas.ts';
import { type ExplainedCaller, type ExplainedLimits, explainLimits } from './explainedLimits.service.ts';
import { type ExplainedName, explainedName } from './explainedName.service.ts';

export interface ExplainDeps extends ModelDeps {
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Reads the evidence about models. Undefined: there is none. */
  readonly readStrata?: ((db: Database) => Promise<Strata>) | undefined;
}

/** The error of a proxy, by the last stage that a model reached. */
const REFUSALS: Readonly<Record<Stage, NonNullable<Explanation['refusal']>>> = {
  unusable: { status: 404, code: 'model_not_found' },
  policy: { status: 403, code: 'model_not_allowed' },
  route: { status: 400, code: 'route_not_supported' },
  constraints: { status: 404, code: 'model_not_found' },
};

/** Explains where a request to `router/<profile>` would go, by the rules of the proxies. */
export async function explainProfile(
  deps: ExplainDeps,
  caller: Caller,
  id: string,
  request: ExplainRequest,
): Promise<Explanation> {
  const profile = routingProfileOf(await existingProfile(deps.db, id));
  const governed = await governedBy(deps, caller, request);
  const name = `${ROUTER_PREFIX}${profile.name}`;
  const resolved = { name, target: name, by: 'id', aliasId: undefined, sentName: undefined } as const;
  return await explain(deps, request, { resolved, profile, ...governed });
}

/** Explains what a name stands for, and where a request with it would go. Throws a 404 if it stands for nothing. */
export async function explainName(
  deps: ExplainDeps,
  caller: Caller,
  { model, ...request }: ExplainNameRequest,
): Promise<Explanation> {
  const governed = await governedBy(deps, caller, request);
  const { policies } = governed;
  const { route = DEFAULT_ROUTE } = request;
  return await explain(deps, request, {
    ...(await explainedName(deps, model, { policies, route })),
    ...governed,
  });
}

const DEFAULT_ROUTE = 'chat_completions';

interface Governed extends ExplainedCaller {
  readonly policies: readonly PolicyRow[];
}

interface Explained extends Governed {
  readonly resolved: ExplainedName;
  /** Undefined: the name stands for a model. */
  readonly profile: RoutingProfile | undefined;
}

async function explain(
  deps: ExplainDeps,
  request: ExplainRequest,
  { resolved, profile, policies, counters, key }: Explained,
): Promise<Explanation> {
  const { route = DEFAULT_ROUTE } = request;
  const rule = profile ?? onlyModel(resolved.target);
  const strata = await deps.readStrata?.(deps.db);
  const facts = { policies, workloadType: workloadOf(request), strata };
  const { candidates, unusable } = await candidatesOf(deps, rule, facts);
  const selection = selectModels(rule, candidates, {
    servesRoute: ({ row, model }) => routeTaken(row, route, model) !== undefined,
    inOrder: (accounts) =>
      accounts.toSorted(
        (a, b) =>
          // Those that take the request as it is come first.
          Number(routeTaken(a.row, route, a.model) !== route) -
            Number(routeTaken(b.row, route, b.model) !== route) ||
          a.row.priority - b.row.priority ||
          b.row.weight - a.row.weight,
      ),
    // A draw by weight is shown in the order of weights. `adaptive` has no order but its draw.
    random: rule.strategy === 'adaptive' ? deps.random : () => 0.5,
  });
  const limits = await explainLimits(deps.db, { counters, key }, request, deps.now());
  const models = selection.ranked.map((ranked) =>
    explainedModel(profile ? ranked : { ...ranked, why: NAMED }, route, limits),
  );
  const first = models[0]?.connectors[0];
  return {
    profile_id: profile?.id ?? null,
    model: resolved.target,
    resolved_name: {
      name: resolved.name,
      by: resolved.by,
      alias_id: resolved.aliasId ?? null,
      sent_name: resolved.sentName ?? null,
    },
    strategy: profile?.strategy ?? null,
    route,
    policies: policies.map((policy) => policy.id),
    budgets: limits.budgets,
    chosen: models[0] && first ? { model: models[0].model, connector_id: first.connector_id } : null,
    refusal: first ? null : REFUSALS[furthestStage(selection.excluded)],
    models,
    excluded: [
      ...selection.excluded.map(({ model, stage, why }) => ({ model, connector_id: null, stage, why })),
      ...selection.passedOver.map(({ model, connector, stage, why }) => ({
        model,
        connector_id: connector.row.id,
        stage,
        why,
      })),
      ...unusable.map(({ model, connectorId, why }) => ({
        model,
        connector_id: connectorId,
        stage: 'unusable' as const,
        why,
      })),
    ],
    not_known: notKnown(rule.strategy, request, { models, hasStrata: strata !== undefined }),
  };
}

/** Why a model is used that the name stands for. */
const NAMED = 'the name stands for it';

/** A model without a profile is routed as the only one of a profile. */
function onlyModel(model: string): Pick<RoutingProfile, 'strategy' | 'targets' | 'constraints'> {
  return { strategy: 'ordered', targets: [{ model, weight: 1 }], constraints: {} };
}

async function governedBy(
  deps: ExplainDeps,
  caller: Caller,
  { key_id: keyId, policy_id: policyId }: ExplainRequest,
): Promise<Governed> {
  if (keyId !== undefined && policyId !== undefined) {
    const message = 'Give either key_id or policy_id: a key has its own policies.';
    throw new AppError('validation', 'explain_ambiguous', message, { param: 'policy_id' });
  }
  if (policyId !== undefined) {
    const policies = (await policyChain(deps.db, policyId)) ?? raise(notFound('policy', 'policy_id'));
    return { policies, counters: countersWithoutKey(policies, deps.now()), key: undefined };
  }
  if (keyId === undefined) return { policies: [], counters: [], key: undefined };
  const key = await visibleKey(deps, caller, keyId).catch(() => raise(notFound('key', 'key_id')));
  const { counters } = await countersOfKey(deps.db, key, deps.now());
  const attribution = key.attribution as LockedAttribution;
  return { policies: counters.map(({ policy }) => policy), counters, key: { id: key.id, attribution } };
}

function notFound(kind: 'key' | 'policy', param: string): AppError {
  return new AppError('validation', `${kind}_not_found`, `There is no ${kind} with this ${param}.`, {
    param,
  });
}

function workloadOf({ workload_type: text }: ExplainRequest): string {
  return text ? workloadTypeKey({ text, sha256: createHash('sha256').update(text).digest() }) : '';
}

function explainedModel(
  { model, why, connectors }: Selection<Account>['ranked'][number],
  route: RouteName,
  limits: ExplainedLimits,
): Explanation['models'][number] {
  return {
    model,
    why,
    limits: limits.on(model),
    connectors: connectors.map(({ row, model: named, price, priceSource }) => ({
      connector_id: row.id,
      name: row.name,
      priority: row.priority,
      weight: row.weight,
      input_price: moneyFromNano(price.input),
      output_price: moneyFromNano(price.output),
      price_source: priceSource,
      translated_to: translationOf(row, route, named),
    })),
  };
}

/** Null: the request passes as it is. */
function translationOf(row: Account['row'], route: RouteName, model: Account['model']): RouteName | null {
  const taken = routeTaken(row, route, model);
  return taken === undefined || taken === route ? null : taken;
}

/** Facts that the control plane does not know and that may change the route. */
function notKnown(
  strategy: Strategy,
  { key_id, policy_id, session_id }: ExplainRequest,
  { models, hasStrata }: { readonly models: Explanation['models']; readonly hasStrata: boolean },
): string[] {
  const isTranslated = models.some(({ connectors }) => connectors.some((one) => one.translated_to !== null));
  const facts: (string | false)[] = [
    'Which connectors are ready. Each proxy has its own circuit breakers and request counts, and skips a connector that is not ready.',
    'The order of connectors of the same priority. Each request draws it by weight; here they are sorted by weight.',
    strategy === 'weighted' &&
      'The order of the models. Each request draws it by weight; here they are sorted by weight.',
    strategy === 'adaptive' && 'The order of the models. Each request draws it; this is one such draw.',
    strategy === 'fastest' &&
      'Whether the request measures a model. One in ten goes to a model without a recent measurement, if there is one.',
    (strategy === 'adaptive' || strategy === 'fastest') &&
      !hasStrata &&
      'The evidence about the models, which is not used here.',
    isTranslated &&
      'What the request holds. What has no counterpart at a vendor with another dialect is dropped, or refused with 400 not_translatable; and a response that is to be stored goes to models that store it first.',
    session_id === undefined
      ? 'Whether the request belongs to a session. A session with a pin keeps its model and connector.'
      : 'Whether the session already has a pin. With one it keeps its model and connector; this explanation is for a new session.',
    key_id === undefined &&
      policy_id === undefined &&
      'Whose request it is. Give key_id or policy_id to apply allowed_models and limits.',
  ];
  return facts.filter((fact) => fact !== false);
}
