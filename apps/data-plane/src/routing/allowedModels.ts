import { shortened } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  type ResolvedKey,
  type RoutableConnector,
  type RoutableModel,
  type RoutingTable,
  upstreamNameAt,
} from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import { findNamedModels } from '../formats/namedModels.ts';

const NO_POLICIES: readonly string[] = [];

/** The policies by which aliases are chosen, the nearest first. */
export function policyIdsOf(
  { policies }: Pick<ResolvedKey, 'policies'>,
  { names }: RoutingTable,
): readonly string[] {
  return names.hasPolicyAliases ? policies.map(({ bucket }) => bucket.policyId) : NO_POLICIES;
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
  const policyIds = policyIdsOf(key, table);
  body.read((bytes) => {
    findNamedModels(bytes, operation.requestFields, (path, name) => {
      for (const { connector } of targets) {
        const ids = idsOf(name, { connector, policyIds, table });
        const refused = ids.find((id) => !isAllowed(key, id));
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
      for (const id of idsOf(name, { connector, policyIds: [], table }))
        if (table.models.has(id)) ids.add(id);
    });
  });
  return [...ids].flatMap((id) => {
    const model = table.models.get(id);
    return model ? [{ model, connector }] : [];
  });
}

const NO_MODELS: readonly string[] = [];

/**
 * The ids of the models that a request names beside its own, for the limits of the key that count by model. Empty if it has none, or the
 * request names none.
 */
export function otherModelsFor(
  { limits, limitRates, policies }: ResolvedKey,
  { operation, body }: Pick<GenerationRequest, 'operation' | 'body'>,
  connector: RoutableConnector,
  table: RoutingTable,
): readonly string[] {
  const byModel = [...limits, ...limitRates].filter(({ countsAll }) => !countsAll);
  if (byModel.length === 0) return NO_MODELS;
  const ids = new Set<string>();
  body.read((bytes) => {
    findNamedModels(bytes, operation.requestFields, (_path, name) => {
      const at = { connector, policyIds: policyIdsOf({ policies }, table), table };
      for (const id of idsOf(name, at)) if (byModel.some(({ counts }) => counts(id))) ids.add(id);
    });
  });
  return ids.size > 0 ? [...ids].sort() : NO_MODELS;
}

/**
 * The models of this service that an account may know by the name. What its provider does not have is resolved as the name of a
 * request would be: no other spelling gets around a policy.
 */
function idsOf(
  name: string,
  {
    connector,
    policyIds,
    table,
  }: Pick<Target, 'connector'> & { policyIds: readonly string[]; table: RoutingTable },
): string[] {
  const { provider } = connector;
  const { models, names } = table;
  const id = name.startsWith(`${provider}/`) && models.has(name) ? name : `${provider}/${name}`;
  const ids = new Set([id, ...(upstreamIds(connector, table).get(name) ?? [])]);
  const other = names.inCatalog(id)?.target;
  if (other !== undefined) ids.add(other);
  if ([...ids].some((one) => models.has(one))) return [...ids];
  const resolved = names.resolve(name, policyIds)?.target;
  if (resolved !== undefined && models.has(resolved)) ids.add(resolved);
  return [...ids];
}

const UPSTREAM_IDS = new WeakMap<
  RoutingTable,
  Map<RoutableConnector, ReadonlyMap<string, readonly string[]>>
>();

/** The ids of models by their names at an account, computed once per table: a request may name many. */
function upstreamIds(
  connector: RoutableConnector,
  table: RoutingTable,
): ReadonlyMap<string, readonly string[]> {
  const known = UPSTREAM_IDS.get(table) ?? new Map();
  UPSTREAM_IDS.set(table, known);
  const found = known.get(connector);
  if (found) return found;
  const ids = new Map<string, string[]>();
  for (const model of table.models.values()) {
    if (model.provider !== connector.provider) continue;
    const name = upstreamNameAt(model, connector);
    ids.set(name, [...(ids.get(name) ?? []), model.id]);
  }
  known.set(connector, ids);
  return ids;
}

/** Every policy of the key allows the model. */
export function isAllowed(key: ResolvedKey, modelId: string): boolean {
  return key.policies.every((policy) => policy.allows(modelId));
}

/** The 403 for a model that a policy does not allow. */
export function notAllowed(modelId: string, param: string, asked = modelId): AppError {
  const where = param === 'model' ? '' : `, which ${param} names`;
  const stands = asked === modelId ? '' : `, for which ${shortened(asked)} stands`;
  const message = `A policy of this key does not allow the model ${shortened(modelId)}${where}${stands}.`;
  return new AppError('permission', 'model_not_allowed', message, { param });
}
