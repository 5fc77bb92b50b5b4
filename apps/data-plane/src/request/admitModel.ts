import { parseModelId } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import {
  type RoutableConnector,
  type RoutableModel,
  type RoutingTable,
  upstreamNameAt,
} from '../control/routingTable.ts';
import type { Target } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { findNamedModels } from '../formats/namedModels.ts';
import { servingConnectors } from '../routing/modelTargets.ts';
import { didYouMean, nearestNames } from '../routing/nearestNames.ts';

const EXAMPLE = 'openai/gpt-5.4';

/** The model that a request names: it exists, is priced, and every policy of the key allows it. Throws 400, 403 or 404. */
export function admitModel(key: ResolvedKey, modelId: string, table: RoutingTable): RoutableModel {
  const model = findModel(key, modelId, table);
  assertAllowed(key, model);
  return model;
}

/** Throws a 403 if a policy of the key does not allow the model. */
export function assertAllowed(key: ResolvedKey, model: RoutableModel): void {
  if (!isAllowed(key, model.id)) throw notAllowed(model.id, 'model');
}

/**
 * Throws a 403 if the request names a model, beside its own, that a policy of the key does not allow: fallbacks, other models
 * that may answer, models of tools. A vendor knows its models by other names than this service does.
 */
export function assertNamedModelsAllowed(
  key: ResolvedKey,
  { operation, body }: Pick<GenerationRequest, 'operation' | 'body'>,
  targets: readonly Target[],
  table: RoutingTable,
): void {
  body.read((bytes) => {
    findNamedModels(bytes, operation.requestFields, (path, name) => {
      for (const { connector } of targets) {
        const refused = idsOf(name, connector, table).find((id) => !isAllowed(key, id));
        if (refused !== undefined) throw notAllowed(refused, path);
      }
    });
  });
}

/** The models of this service that the request names beside its own, as far as they are known. */
export function namedTargets(
  { operation, body }: Pick<GenerationRequest, 'operation' | 'body'>,
  connector: RoutableConnector,
  table: RoutingTable,
): Target[] {
  const ids = new Set<string>();
  body.read((bytes) => {
    findNamedModels(bytes, operation.requestFields, (_path, name) => {
      // A request may name any number, but few that exist.
      for (const id of idsOf(name, connector, table)) if (table.models.has(id)) ids.add(id);
    });
  });
  return [...ids].flatMap((id) => {
    const model = table.models.get(id);
    return model ? [{ model, connector }] : [];
  });
}

/** The models of this service that an account may know by the name. */
function idsOf(name: string, connector: RoutableConnector, table: RoutingTable): string[] {
  const { provider } = connector;
  const ids = new Set([
    name.startsWith(`${provider}/`) && table.models.has(name) ? name : `${provider}/${name}`,
  ]);
  for (const model of table.models.values()) {
    if (model.provider === provider && upstreamNameAt(model, connector) === name) ids.add(model.id);
  }
  return [...ids];
}

/** Every policy of the key allows the model. */
export function isAllowed(key: ResolvedKey, modelId: string): boolean {
  return key.policies.every((policy) => policy.allows(modelId));
}

function notAllowed(modelId: string, param: string): AppError {
  const where = param === 'model' ? '' : `, which ${param} names`;
  const message = `A policy of this key does not allow the model ${shown(modelId)}${where}.`;
  return new AppError('permission', 'model_not_allowed', message, { param });
}

function findModel(key: ResolvedKey, id: string, table: RoutingTable): RoutableModel {
  const { provider } = parseModelId(id) ?? raise(notAnId(key, id, table));
  const model = table.models.get(id);
  if (model) return model;
  const reason = table.connectors.has(provider)
    ? `The provider ${provider} has no priced model of this name that an enabled connector serves.`
    : `No enabled connector serves the provider "${provider}".`;
  const meant = didYouMean(nearestModels(key, id, table));
  throw new AppError(
    'not_found',
    'model_not_found',
    `There is no model ${shown(id)}. ${reason}${meant} GET /api/v1/models lists the models.`,
    {
      param: 'model',
    },
  );
}

/** Models that the key may use, by the names that vendors give them too. */
export function nearestModels(key: ResolvedKey, id: string, table: RoutingTable): string[] {
  const isReachable = (name: string) => isAllowed(key, name) && isServed(name, table);
  const meant = [...table.models.values()]
    .filter(({ upstreamName }) => upstreamName.toLowerCase() === id.toLowerCase())
    .map((model) => model.id)
    .filter(isReachable);
  return meant.length > 0 ? meant.slice(0, 1) : nearestNames(id, table.models.keys(), isReachable);
}

function isServed(modelId: string, table: RoutingTable): boolean {
  const model = table.models.get(modelId);
  return model !== undefined && servingConnectors(model, table).length > 0;
}

function notAnId(key: ResolvedKey, id: string, table: RoutingTable): AppError {
  const [meant] = nearestModels(key, id, table);
  // A bare name is most likely OpenAI's.
  const suggestion = meant ?? (/^[^/]+$/.test(id) ? `openai/${shown(id)}` : EXAMPLE);
  return new AppError(
    'invalid_request',
    'invalid_model',
    `A model is named <provider>/<model>, such as "${suggestion}".`,
    {
      param: 'model',
    },
  );
}

function shown(id: string): string {
  return id.length <= 100 ? id : `${id.slice(0, 100)}…`;
}
