import { microFromNano, parseModelId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { ResolvedKey, ResolvedPolicy } from '../control/resolvedKey.ts';
import type { RoutableModel, RoutingTable } from '../control/routingTable.ts';

/** Of the form that a model's id has. */
const EXAMPLE = 'openai/gpt-5.4';

/** Decides whether a key may use a model now: it exists and is priced, the policies allow it, and there is budget. */
export function admit(
  key: ResolvedKey,
  modelId: string,
  table: RoutingTable,
  options: { readonly needsBudget: boolean },
): RoutableModel {
  const model = findModel(modelId, table);
  if (!key.policies.every((policy) => policy.allows(model.id))) {
    throw new AppError(
      'permission',
      'model_not_allowed',
      `The policy of this key does not allow the model ${model.id}.`,
      {
        param: 'model',
      },
    );
  }
  // An exhausted budget never blocks what costs nothing.
  if (options.needsBudget && !model.free) requireBudgets(key);
  return model;
}

function findModel(id: string, table: RoutingTable): RoutableModel {
  const { provider } = parseModelId(id) ?? raise(notAnId(id, table));
  const model = table.models.get(id);
  if (model) return model;
  const reason = table.connectors.has(provider)
    ? `The provider ${provider} has no priced model of this name here.`
    : `No enabled connector serves the provider "${provider}".`;
  throw new AppError(
    'not_found',
    'model_not_found',
    `There is no model ${shown(id)}. ${reason} GET /api/v1/models lists what there is.`,
    {
      param: 'model',
    },
  );
}

function notAnId(id: string, table: RoutingTable): AppError {
  const wanted = id.toLowerCase();
  const isMeant = (model: RoutableModel) =>
    [model.id, model.upstreamName].some((n) => n.toLowerCase() === wanted);
  const models = [...table.models.values()];
  const meant = models.find((model) => model.upstreamName === id) ?? models.find(isMeant);
  // A name alone may be that of the best known vendor; what has a slash, or nothing in it, is no name of a model.
  const suggestion = meant?.id ?? (/^[^/]+$/.test(id) ? `openai/${shown(id)}` : EXAMPLE);
  return new AppError(
    'invalid_request',
    'invalid_model',
    `A model is named <provider>/<model>, such as "${suggestion}".`,
    {
      param: 'model',
    },
  );
}

function requireBudgets({ policies, isOperator }: ResolvedKey): void {
  for (const [index, policy] of policies.entries())
    requireBudget(policy, { isGoverning: index === 0, isOperator });
}

function requireBudget(
  policy: ResolvedPolicy,
  { isGoverning, isOperator }: { readonly isGoverning: boolean; readonly isOperator: boolean },
): void {
  const { enforced, limitNanoUsd: limit, spentNanoUsd: spent, windowEndMs } = policy;
  if (!enforced || limit === undefined || spent < limit) return;
  const reset = windowEndMs === undefined ? null : new Date(windowEndMs).toISOString();
  const when = reset ? `It starts again at ${reset}.` : 'It does not start again by itself.';
  // The figures of a parent policy are other people's: they are for operators.
  const mayKnow = isGoverning || isOperator;
  throw new AppError(
    'quota',
    'budget_exhausted',
    `The budget of ${isGoverning ? 'this key' : 'a parent policy'} is spent. ${when}`,
    {
      headers: { 'x-should-retry': 'false' },
      details: mayKnow
        ? {
            policy_id: policy.bucket.policyId,
            limit_micro_usd: microFromNano(limit),
            spent_micro_usd: microFromNano(spent),
            reset,
          }
        : { reset },
    },
  );
}

function shown(id: string): string {
  return id.length <= 100 ? id : `${id.slice(0, 100)}…`;
}
