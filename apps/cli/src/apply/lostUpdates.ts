import { isDeepStrictEqual } from 'node:util';
import { ApiError } from '@weighbridge/client';
import type { CurrentState } from './changes.ts';
import type { Json } from './desiredState.ts';
import type { Send } from './runPlan.ts';

/** A response: its body, and its ETag if it has one. */
interface Answer {
  readonly body: Json;
  readonly etag: string | undefined;
}

/** Calls the service; rejects if it refuses. */
export type Call = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string>>,
) => Promise<Answer>;

/** What changes by itself, or is not of the resource: no one's change is lost with it. */
const UNVERSIONED = new Set([
  'usable',
  'policy_name',
  'unusable_reason',
  'credential_bound',
  'credential_hosts',
  'priced_at',
  'pending',
  'last_delivered_at',
  'last_error',
  'last_used_at',
]);
/** A principal's team is set by other operations, also in the same run. */
const OF_PRINCIPAL = ['policy_id', 'role', 'active'];
const NEW_PRINCIPAL: Json = { policy_id: null, role: null, active: true };

/**
 * Changes only what is still as the plan found it, and creates only what does not exist: so that what others changed meanwhile is
 * not overwritten. The service checks it with each change, by the ETag.
 */
export function withoutLostUpdates(current: CurrentState, call: Call): Send {
  const known = knownResources(current);
  /** What this run changed, by path; undefined: without an ETag. */
  const changed = new Map<string, string | undefined>();
  const conditionOf = async (method: string, path: string): Promise<Record<string, string>> => {
    if (/^\/api\/v1\/connectors\/[^/]+\/prices\//.test(path)) {
      const price = known.get(path);
      return price ? { 'if-match': `"${String(price.version)}"` } : { 'if-none-match': '*' };
    }
    const resource = resourceOf(path);
    const before = known.get(resource);
    if (changed.has(resource)) return ifMatch(changed.get(resource));
    // Names of policies may be given twice; those of other kinds are refused by themselves.
    if (method === 'POST' && path === '/api/v1/policies') return { 'if-none-match': '*' };
    if (before === undefined) return method === 'PUT' && isCreatedByPut(path) ? { 'if-none-match': '*' } : {};
    const { body, etag } = await call('GET', resource);
    if (!isSame(resource, before, body)) throw changedMeanwhile();
    return ifMatch(etag);
  };
  return async (method, path, body) => {
    const headers = method === 'GET' ? {} : await conditionOf(method, path);
    const answer = await call(method, path, body, headers).catch(async (error: unknown) => {
      if (!(error instanceof ApiError)) throw error;
      // The plan found no such name a moment ago.
      if (method === 'POST' && error.status === 409 && isTaken(error.code)) throw madeMeanwhile(error);
      if (error.status !== 412) throw error;
      if (method === 'POST') throw madeMeanwhile(error);
      const found = error.details.current as Json | undefined;
      // This run put it into a team, which creates it.
      if (!isPrincipal(path) || !found || !isSame(path, NEW_PRINCIPAL, found)) throw changedMeanwhile(error);
      const { etag } = await call('GET', path);
      return await call(method, path, body, ifMatch(etag));
    });
    const own = method === 'POST' && resourceOf(path) === path ? `${path}/${String(answer.body.id)}` : path;
    if (method !== 'GET') changed.set(resourceOf(own), own === resourceOf(own) ? answer.etag : undefined);
    return answer.body;
  };
}

/** The resources of the plan by their paths. */
function knownResources({ models, prices, ...sections }: CurrentState): ReadonlyMap<string, Json> {
  const known = new Map<string, Json>();
  for (const [section, resources] of Object.entries(sections)) {
    for (const one of resources) known.set(`/api/v1/${section}/${encodeURIComponent(String(one.id))}`, one);
  }
  for (const one of models) known.set(`/api/v1/catalog/models/${encodeURIComponent(String(one.model))}`, one);
  for (const [connector, list] of Object.entries(prices)) {
    for (const one of list.filter(({ price }) => price)) {
      known.set(`/api/v1/connectors/${connector}/prices/${encodeURIComponent(String(one.model))}`, one);
    }
  }
  return known;
}

/** A model's price is a part of the model. */
function resourceOf(path: string): string {
  return path.replace(/^(\/api\/v1\/catalog\/models\/[^/]+)\/prices$/, '$1');
}

function isCreatedByPut(path: string): boolean {
  return isPrincipal(path) || /^\/api\/v1\/catalog\/models\/[^/]+$/.test(path);
}

function isPrincipal(path: string): boolean {
  return /^\/api\/v1\/principals\/[^/]+$/.test(path);
}

function isSame(path: string, planned: Json, now: Json): boolean {
  const fields = isPrincipal(path)
    ? OF_PRINCIPAL.filter((name) => name in planned)
    : Object.keys(planned).filter((name) => !UNVERSIONED.has(name));
  return fields.every((name) => isDeepStrictEqual(planned[name], now[name]));
}

/** A service of an earlier release sends no ETag. */
function ifMatch(etag: string | undefined): Record<string, string> {
  return etag === undefined ? {} : { 'if-match': etag };
}

/** Whether an error says that there is a resource of this name. */
export function isTaken(code: string): boolean {
  return /_(name_taken|exists)$/.test(code);
}

function madeMeanwhile(cause: Error): Error {
  const message = 'Someone else made it since the plan was made. Run apply again.';
  return new Error(`${message} (${cause.message})`, { cause });
}

function changedMeanwhile(cause?: unknown): Error {
  const message =
    'Someone else changed it since the plan was made, so it was left as it is. Run apply again.';
  return new Error(message, { cause });
}
