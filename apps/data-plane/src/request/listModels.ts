import { didYouMean, ROUTER_PREFIX, shortened } from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { ResolvedKey, RoutingTable } from '@weighbridge/state';
import type { Dialect } from '../formats/operation.ts';
import { isAllowed, policyIdsOf } from '../routing/allowedModels.ts';
import { reachableProfiles } from '../routing/profileTargets.ts';
import { nearestModels } from './nearestModels.ts';
import { type PresentedModel, presentModel } from './presentedModel.ts';
import { resolveName } from './resolveModel.ts';

const DEFAULT_LIMIT = 20;
const MAX_LIMIT = 1_000;

export interface ModelsQuery {
  readonly limit?: unknown;
  readonly after_id?: unknown;
  readonly before_id?: unknown;
  /** Sent by Codex. */
  readonly client_version?: unknown;
}

/** The models, profiles and exact aliases that a key can reach now, in the shape of a dialect. */
export function listModels(
  key: ResolvedKey,
  table: RoutingTable,
  dialect: Dialect,
  query: ModelsQuery,
): object {
  const models = reachableModels(key, table);
  if (dialect === 'anthropic') return page(models, query);
  const data = models.map((model) => presentModel(model, dialect));
  // Codex reads `models`, its own descriptions with prompts; without any, it uses those that it ships.
  return query.client_version === undefined ? { object: 'list', data } : { object: 'list', data, models: [] };
}

/**
 * One model or profile, by the name that was asked; a 404 if there is none of this name, or a policy does not allow what it
 * stands for.
 */
export function retrieveModel(key: ResolvedKey, table: RoutingTable, dialect: Dialect, name: string): object {
  const id = table.models.has(name) ? name : (resolveName(name, key, table)?.target ?? name);
  const model = table.models.get(id);
  const profile = id.startsWith(ROUTER_PREFIX) && listedProfiles(key, table).find((one) => one.id === id);
  const found: PresentedModel | false | undefined = model && isAllowed(key, id) ? model : profile;
  return presentModel(
    namedAs(name, found || raise(notFound(name, nearestModels(key, name, table)))),
    dialect,
  );
}

/** A model under another name. */
function namedAs(
  name: string,
  { provider, contextWindow, maxOutputTokens, capabilities }: PresentedModel,
): PresentedModel {
  return { id: name, provider, contextWindow, maxOutputTokens, capabilities };
}

function reachableModels(key: ResolvedKey, table: RoutingTable): PresentedModel[] {
  const models = [...table.models.values()].filter(({ id }) => isAllowed(key, id));
  const profiles = listedProfiles(key, table);
  const byId = new Map<string, PresentedModel>([...models, ...profiles].map((one) => [one.id, one]));
  const aliases = table.names.aliasesOf(policyIdsOf(key, table)).flatMap(({ name, target }) => {
    const found = byId.get(target);
    return found ? namedAs(name, found) : [];
  });
  return [...byId.values(), ...aliases].sort((a, b) => (a.id < b.id ? -1 : 1));
}

function listedProfiles(key: ResolvedKey, table: RoutingTable): PresentedModel[] {
  return reachableProfiles(key, table).map((name) => ({
    id: `${ROUTER_PREFIX}${name}`,
    provider: ROUTER_PREFIX.slice(0, -1),
  }));
}

/** Anthropic's pagination: by the ids before and after a page. */
function page(models: readonly PresentedModel[], query: ModelsQuery): object {
  const limit = pageLimit(query.limit);
  const { after_id: after, before_id: before } = query;
  const rest = models.filter(
    ({ id }) => (typeof after !== 'string' || id > after) && (typeof before !== 'string' || id < before),
  );
  const isBackwards = typeof before === 'string' && typeof after !== 'string';
  const shown = isBackwards ? rest.slice(-limit) : rest.slice(0, limit);
  return {
    data: shown.map((model) => presentModel(model, 'anthropic')),
    has_more: rest.length > shown.length,
    first_id: shown[0]?.id ?? null,
    last_id: shown.at(-1)?.id ?? null,
  };
}

function pageLimit(text: unknown): number {
  if (text === undefined) return DEFAULT_LIMIT;
  const limit = Number(text);
  if (/^\d+$/.test(String(text)) && limit >= 1 && limit <= MAX_LIMIT) return limit;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    `limit: must be a whole number from 1 to ${MAX_LIMIT}.`,
    { param: 'limit' },
  );
}

function notFound(id: string, near: readonly string[]): AppError {
  const message = `There is no model ${shortened(id)} here.${didYouMean(near)} GET /v1/models lists the models.`;
  return new AppError('not_found', 'model_not_found', message, { param: 'model' });
}
