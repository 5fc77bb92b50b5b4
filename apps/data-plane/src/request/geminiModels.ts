import { AppError, raise } from '@weighbridge/errors';
import { canAnswer, type ResolvedKey, type RoutableModel, type RoutingTable } from '@weighbridge/state';
import { GEMINI_OPERATIONS } from '../formats/operation.ts';
import { isAllowed } from '../routing/allowedModels.ts';
import { servingConnectors } from '../routing/modelTargets.ts';
import { resolveName } from './resolveModel.ts';

const OWN_PREFIX = 'gemini/';
const DEFAULT_PAGE_SIZE = 50;
const MAX_PAGE_SIZE = 1_000;

/** As Google names them; either spelling. */
export interface GeminiModelsQuery {
  readonly pageSize?: unknown;
  readonly page_size?: unknown;
  readonly pageToken?: unknown;
  readonly page_token?: unknown;
}

/** The models that a key can reach by Gemini's operations, in Gemini's shape, by pages. */
export function listGeminiModels(key: ResolvedKey, table: RoutingTable, query: GeminiModelsQuery): object {
  const names = [...table.models.values()]
    .filter((model) => isAllowed(key, model.id) && methodsOf(model, table).length > 0)
    .sort((a, b) => (a.id < b.id ? -1 : 1));
  const size = Number(query.pageSize ?? query.page_size ?? DEFAULT_PAGE_SIZE);
  const limit = Number.isInteger(size) && size > 0 ? Math.min(size, MAX_PAGE_SIZE) : DEFAULT_PAGE_SIZE;
  const token = query.pageToken ?? query.page_token ?? '';
  const after = typeof token === 'string' ? Buffer.from(token, 'base64url').toString('utf8') : '';
  const rest = names.filter(({ id }) => id > after);
  const page = rest.slice(0, limit);
  const last = page.at(-1);
  return {
    models: page.map((model) => present(model, table)),
    ...(last && rest.length > limit && { nextPageToken: Buffer.from(last.id).toString('base64url') }),
  };
}

/** One of them, by any of its names; throws a 404 if there is none, or a policy does not allow it. */
export function retrieveGeminiModel(key: ResolvedKey, table: RoutingTable, name: string): object {
  const model = table.models.get(resolveName(name, key, table)?.target ?? name);
  const isReachable = model && isAllowed(key, model.id) && methodsOf(model, table).length > 0;
  return isReachable ? present(model, table) : raise(notFound(name));
}

function notFound(name: string): AppError {
  const message = `There is no model models/${name.slice(0, 100)} that this key reaches by Gemini's operations. GET /v1beta/models lists them.`;
  return new AppError('not_found', 'model_not_found', message, { param: 'model' });
}

function present(model: RoutableModel, table: RoutingTable): object {
  const { id, contextWindow, maxOutputTokens } = model;
  // Google's clients know Google's models without the provider.
  const name = id.startsWith(OWN_PREFIX) ? id.slice(OWN_PREFIX.length) : id;
  return {
    name: `models/${name}`,
    displayName: name,
    ...(contextWindow > 0 && { inputTokenLimit: contextWindow }),
    ...(maxOutputTokens !== undefined && { outputTokenLimit: maxOutputTokens }),
    supportedGenerationMethods: methodsOf(model, table),
  };
}

function methodsOf(model: RoutableModel, table: RoutingTable): string[] {
  const connectors = servingConnectors(model, table);
  return GEMINI_OPERATIONS.flatMap((operation) => {
    const { method } = operation;
    const isServed = connectors.some((connector) => canAnswer(connector, operation));
    return method !== undefined && isServed ? [method] : [];
  });
}
