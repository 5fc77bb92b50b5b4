import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import {
  furthestStage,
  type Money,
  moneyFromNano,
  type RoutingProfile,
  type Selection,
  type Stage,
  type Strata,
  selectModels,
  workloadTypeKey,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../../shared/caller.ts';
import { type RouteName, routesOf } from '../connectors/providers.ts';
import { visibleKey } from '../keys/keys.service.ts';
import type { ModelDeps } from '../models/models.service.ts';
import { countersOf, type PolicyRow, policyChain } from '../policies/policies.service.ts';
import { existingProfile, routingProfileOf } from '../profiles/profiles.service.ts';
import { type Account, offersOf } from './candidates.service.ts';

export interface ExplainDeps extends ModelDeps {
  /** From 0 up to 1. */
  readonly random: () => number;
  /** What was observed of models; undefined where nobody keeps it. */
  readonly readStrata?: ((db: Database) => Promise<Strata>) | undefined;
}

/** A request as far as its routing depends on it. */
export interface ExplainedRequest {
  readonly route?: RouteName;
  /** Whose policies hold; without either of the two, none does. */
  readonly key_id?: string;
  readonly policy_id?: string;
  /** As in `X-Svc-Workload-Type`. */
  readonly workload_type?: string;
  /** As in `X-Svc-Session-Id`. */
  readonly session_id?: string;
}

export interface Explanation {
  readonly profile_id: string;
  readonly model: string;
  readonly strategy: RoutingProfile['strategy'];
  readonly route: RouteName;
  /** The ids of the policies that were applied. */
  readonly policies: string[];
  /** Where the request goes first; null where it is refused. */
  readonly chosen: { readonly model: string; readonly connector_id: string } | null;
  /** What its caller is told instead; null where something is left. */
  readonly refusal: Refusal | null;
  readonly models: ExplainedModel[];
  readonly excluded: Excluded[];
  readonly not_known: string[];
}

interface Refusal {
  readonly status: number;
  readonly code: string;
}

interface ExplainedModel {
  readonly model: string;
  readonly why: string;
  readonly connectors: {
    readonly connector_id: string;
    readonly name: string;
    readonly priority: number;
    readonly weight: number;
    readonly input_price: Money;
    readonly output_price: Money;
    readonly price_source: 'catalog' | 'connector';
  }[];
}

interface Excluded {
  readonly model: string;
  /** Null where it is the whole model. */
  readonly connector_id: string | null;
  readonly stage: Stage;
  readonly why: string;
}

/** By how far the models came, what a proxy answers. */
const REFUSALS: Readonly<Record<Stage, Refusal>> = {
  unusable: { status: 404, code: 'model_not_found' },
  policy: { status: 403, code: 'model_not_allowed' },
  route: { status: 400, code: 'route_not_supported' },
  constraints: { status: 404, code: 'model_not_found' },
};

/** Says where a request to `router/<profile>` would go and why, by the rules that the proxies follow. */
export async function explainProfile(
  deps: ExplainDeps,
  caller: Caller,
  id: string,
  request: ExplainedRequest,
): Promise<Explanation> {
  const profile = routingProfileOf(await existingProfile(deps.db, id));
  const { route = 'chat_completions' } = request;
  const policies = await policiesOf(deps, caller, request);
  const strata = await deps.readStrata?.(deps.db);
  const asked = { policies, workloadType: workloadOf(request), strata };
  const { offers, unusable } = await offersOf(deps, profile, asked);
  const selection = selectModels(profile, offers, {
    servesRoute: ({ row }) => routesOf(row.provider, row.dialect).includes(route),
    inOrder: (accounts) =>
      accounts.toSorted((a, b) => a.row.priority - b.row.priority || b.row.weight - a.row.weight),
    // What is drawn by weight is shown by weight; `adaptive` is nothing but its draw.
    random: profile.strategy === 'adaptive' ? deps.random : () => 0.5,
  });
  const models = selection.ranked.map(explainedModel);
  const first = models[0]?.connectors[0];
  return {
    profile_id: profile.id,
    model: `router/${profile.name}`,
    strategy: profile.strategy,
    route,
    policies: policies.map((policy) => policy.id),
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
    not_known: notKnown(profile, request, strata !== undefined),
  };
}

async function policiesOf(
  deps: ExplainDeps,
  caller: Caller,
  { key_id: keyId, policy_id: policyId }: ExplainedRequest,
): Promise<readonly PolicyRow[]> {
  if (keyId !== undefined && policyId !== undefined) {
    const message = 'Give key_id or policy_id, not both: a key has policies of its own.';
    throw new AppError('validation', 'explain_ambiguous', message, { param: 'policy_id' });
  }
  if (policyId !== undefined) {
    return (await policyChain(deps.db, policyId)) ?? raise(notThere('policy', 'policy_id'));
  }
  if (keyId === undefined) return [];
  const key = await visibleKey(deps, caller, keyId).catch(() => raise(notThere('key', 'key_id')));
  const { counters } = await countersOf(deps.db, key, deps.now());
  return counters.map(({ policy }) => policy);
}

function notThere(kind: 'key' | 'policy', param: string): AppError {
  return new AppError('validation', `${kind}_not_found`, `There is no ${kind} with this ${param}.`, {
    param,
  });
}

function workloadOf({ workload_type: text }: ExplainedRequest): string {
  return text ? workloadTypeKey({ text, sha256: createHash('sha256').update(text).digest() }) : '';
}

function explainedModel({ model, why, connectors }: Selection<Account>['ranked'][number]): ExplainedModel {
  return {
    model,
    why,
    connectors: connectors.map(({ row, price, priceSource }) => ({
      connector_id: row.id,
      name: row.name,
      priority: row.priority,
      weight: row.weight,
      input_price: moneyFromNano(price.input),
      output_price: moneyFromNano(price.output),
      price_source: priceSource,
    })),
  };
}

/** What a request meets besides, and the control plane can't tell. */
function notKnown(
  { strategy }: RoutingProfile,
  { key_id, policy_id, session_id }: ExplainedRequest,
  hasStrata: boolean,
): string[] {
  const facts: (string | false)[] = [
    'Which connectors are ready: each proxy has its own circuit breakers and counts its own requests. One that is not ready is passed over.',
    'Connectors of the same priority are drawn by weight anew for each request; here they stand by weight.',
    strategy === 'weighted' &&
      'The models are drawn by weight anew for each request; here they stand by weight.',
    strategy === 'adaptive' && 'The models are drawn anew for each request: this is one such draw.',
    strategy === 'fastest' &&
      'Of ten requests, one measures a model that was not measured lately, as long as there is one.',
    (strategy === 'adaptive' || strategy === 'fastest') &&
      !hasStrata &&
      'What was observed of the models: it is not taken into account here.',
    session_id === undefined
      ? 'Whether the request belongs to a session: one that was decided before stays where it is.'
      : 'Whether this session was decided before: then it stays where it is, and this holds for a new one.',
    key_id === undefined &&
      policy_id === undefined &&
      'Whose request it is: give key_id or policy_id, and allowed_models is applied.',
  ];
  return facts.filter((fact) => fact !== false);
}
