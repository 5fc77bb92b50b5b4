import { createHash } from 'node:crypto';
import type { Database } from '@weighbridge/database';
import {
  compileModelPatterns,
  furthestStage,
  type Money,
  moneyFromNano,
  type Offer,
  observedOf,
  parseModelId,
  type RoutingProfile,
  type Selection,
  type Stage,
  type Strata,
  selectModels,
  type TokenPrices,
  workloadTypeKey,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Caller } from '../access/caller.ts';
import { benchmarkScores } from '../catalog/benchmarkScores.ts';
import { modelsWithPrices } from '../catalog/catalog.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import { type ConnectorRow, judgedConnectors } from '../connectors/connectors.service.ts';
import { type RouteName, routesOf } from '../connectors/providers.ts';
import { visibleKey } from '../keys/keys.service.ts';
import type { ModelDeps } from '../models/models.service.ts';
import { countersOf, type PolicyRow, policyChain } from '../policies/policies.service.ts';
import { existingProfile, routingProfileOf } from './profiles.service.ts';

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
  const { offers, unusable, accounts } = await offersOf(deps, profile, policies, workloadOf(request), strata);
  const selection = selectModels(profile, offers, {
    servesRoute: ({ row }) => routesOf(row.provider, row.dialect).includes(route),
    inOrder: (accounts) => accounts.toSorted((a, b) => a.priority - b.priority || b.weight - a.weight),
    // What is drawn by weight is shown by weight; `adaptive` is nothing but its draw.
    random: profile.strategy === 'adaptive' ? deps.random : () => 0.5,
  });
  const models = selection.ranked.map((ranked) => explainedModel(ranked, accounts));
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
        connector_id: connector.id,
        stage,
        why,
      })),
      ...unusable,
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

/** A connector, by the price of one model there. */
interface Account {
  readonly id: string;
  readonly priority: number;
  readonly weight: number;
  readonly row: ConnectorRow;
}

type Accounts = ReadonlyMap<
  string,
  { readonly price: TokenPrices; readonly source: 'catalog' | 'connector' }
>;

const accountKey = (model: string, connectorId: string) => `${connectorId} ${model}`;

async function offersOf(
  deps: ExplainDeps,
  profile: RoutingProfile,
  policies: readonly PolicyRow[],
  workloadType: string,
  strata: Strata = () => undefined,
): Promise<{ offers: Offer<Account>[]; unusable: Excluded[]; accounts: Accounts }> {
  const ids = profile.targets.map(({ model }) => model);
  const providers = [...new Set(ids.flatMap((model) => parseModelId(model)?.provider ?? []))];
  const entries = await modelsWithPrices(deps.db, ids);
  const connectors = await judgedConnectors(deps, providers);
  const negotiated = await negotiatedPrices(
    deps.db,
    connectors.map(({ row }) => row.id),
  );
  const allowedByEach = policies.map((policy) => compileModelPatterns(policy.allowed_models));
  const accounts = new Map<string, { price: TokenPrices; source: 'catalog' | 'connector' }>();
  const unusable: Excluded[] = [];

  const offers = profile.targets.map(({ model, weight }): Offer<Account> => {
    const entry = entries.get(model);
    if (!entry) return { model, unusable: 'the catalog has no model of this id' };
    const { row, price: catalogs } = entry;
    if (row.disabled) return { model, unusable: 'it is disabled in the catalog' };
    if (!catalogs) return { model, unusable: 'it has no price' };
    const serving = connectors.filter(
      (connector) =>
        connector.row.provider === row.provider && compileModelPatterns(connector.row.models)(model),
    );
    const used = serving.flatMap(
      ({ row: { id, priority, weight: share }, row: connector, unusable: why }) => {
        if (why !== undefined) {
          unusable.push({ model, connector_id: id, stage: 'unusable', why });
          return [];
        }
        const own = negotiated.get(id)?.find(({ modelId }) => modelId === model)?.price;
        const price = own ?? catalogs;
        accounts.set(accountKey(model, id), { price, source: own ? 'connector' : 'catalog' });
        return [{ connector: { id, priority, weight: share, row: connector }, price }];
      },
    );
    if (used.length === 0) return { model, unusable: 'no enabled connector serves it' };
    return {
      model,
      weight,
      contextWindow: row.context_window,
      score: benchmarkScores(row.benchmark_scores as Record<string, number>).avg_score,
      capabilities: row.capabilities,
      ...observedOf(strata, workloadType, model),
      isAllowed: allowedByEach.every((allows) => allows(model)),
      connectors: used,
    };
  });
  return { offers, unusable, accounts };
}

function explainedModel(
  { model, why, connectors }: Selection<Account>['ranked'][number],
  accounts: Accounts,
): ExplainedModel {
  return {
    model,
    why,
    connectors: connectors.flatMap(({ id, priority, weight, row }) => {
      const at = accounts.get(accountKey(model, id));
      if (!at) return [];
      const { price, source } = at;
      return {
        connector_id: id,
        name: row.name,
        priority,
        weight,
        input_price: moneyFromNano(price.input),
        output_price: moneyFromNano(price.output),
        price_source: source,
      };
    }),
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
