import { allItems, type Client, type PageOf } from '@weighbridge/client';
import type { CurrentState } from './changes.ts';
import type { ApplyFile, Json } from './desiredState.ts';
import type { Call } from './lostUpdates.ts';
import type { Prunable } from './prune.ts';
import type { Send } from './runPlan.ts';

const OVERRIDES = '/api/v1/overrides?active=true';

/** Reads only the sections that the file or `--prune` names. */
export async function readCurrentState(
  client: Client,
  file: ApplyFile,
  prune: readonly Prunable[],
  owner: string,
): Promise<CurrentState> {
  const send = sender(client);
  const list = (path: string, wanted: boolean) => (wanted ? listAll(send, path) : []);
  const uses = (section: keyof ApplyFile & Prunable) => file[section].length > 0 || prune.includes(section);
  const connectors = await list('/api/v1/connectors', uses('connectors') || prune.includes('prices'));
  const names = new Set(file.connectors.map(({ fields }) => fields.name));
  const priced = connectors.filter(({ name }) => names.has(name));
  return {
    profiles: await list('/api/v1/profiles', uses('profiles') || uses('policies')),
    policies: await list(
      '/api/v1/policies',
      (['policies', 'overrides', 'teams', 'aliases', 'webhooks', 'keys'] as const).some(uses) ||
        file.principals.length > 0,
    ),
    teams: await list('/api/v1/teams', uses('teams') || uses('webhooks')),
    principals: await list('/api/v1/principals', file.principals.length > 0 || uses('teams')),
    overrides: await list(OVERRIDES, uses('overrides')),
    models: await list('/api/v1/catalog/models', uses('models')),
    connectors,
    aliases: await list('/api/v1/aliases', uses('aliases')),
    webhooks: await list('/api/v1/webhooks', uses('webhooks')),
    keys: await list(keysOf(owner), uses('keys')),
    prices: await pricesOf(send, priced),
  };
}

/** Everything that a file can contain. */
async function readWholeState(client: Client, owner: string): Promise<CurrentState> {
  const send = sender(client);
  // What others refer to comes last: what was created meanwhile is found, so that most changes do no harm.
  const keys = await listAll(send, keysOf(owner));
  const webhooks = await listAll(send, '/api/v1/webhooks');
  const aliases = await listAll(send, '/api/v1/aliases');
  const overrides = await listAll(send, OVERRIDES);
  const principals = await listAll(send, '/api/v1/principals');
  const teams = await listAll(send, '/api/v1/teams');
  const connectors = await listAll(send, '/api/v1/connectors');
  const prices = await pricesOf(send, connectors);
  const models = await listAll(send, '/api/v1/catalog/models');
  const policies = await listAll(send, '/api/v1/policies');
  const profiles = await listAll(send, '/api/v1/profiles');
  return {
    profiles,
    policies,
    teams,
    principals,
    overrides,
    models,
    connectors,
    aliases,
    webhooks,
    keys,
    prices,
  };
}

/** Changes of these are in no file; of keys, only those of the files' owner are. */
const NOT_IN_FILES = /^(proxy|request|quarantine|ledger|credentials|key)\./;
/** Enough to see changes that were under way before and that commit later, with an earlier id. */
const AUDITED = 500;

/**
 * As `readWholeState`, with whether something changed while it was read. Then it may have the one half of a change, and not the
 * other.
 */
export async function readConsistently(
  client: Client,
  owner: string,
): Promise<{ readonly state: CurrentState; readonly isConsistent: boolean }> {
  const before = new Set((await newestChanges(client)).map(({ id }) => id));
  const state = await readWholeState(client, owner);
  const since = (await newestChanges(client)).filter(({ id }) => !before.has(id));
  const own = new Set(state.keys.map(({ id }) => id));
  const isOther = ({ action, resource_id }: Json) =>
    NOT_IN_FILES.test(String(action)) && !own.has(resource_id);
  return { state, isConsistent: since.length < AUDITED && since.every(isOther) };
}

async function newestChanges(client: Client): Promise<readonly Json[]> {
  const page = await sender(client)('GET', `/api/v1/audit?page_size=${AUDITED}`);
  return (page as unknown as PageOf<Json>).data;
}

/** The keys that `apply` issued for an owner's files. */
function keysOf(owner: string): string {
  return `/api/v1/keys?revoked=false&managed_by=${encodeURIComponent(owner)}`;
}

async function pricesOf(send: Send, connectors: readonly Json[]): Promise<Record<string, Json[]>> {
  const prices: Record<string, Json[]> = {};
  for (const { id } of connectors) {
    prices[String(id)] = await listAll(send, `/api/v1/connectors/${String(id)}/prices`);
  }
  return prices;
}

/** All items of a list, over all its pages. */
export async function listAll(send: Send, path: string): Promise<Json[]> {
  return await allItems(async (token) => {
    const query = `page_size=500&page_token=${encodeURIComponent(token)}`;
    const page = await send('GET', `${path}${path.includes('?') ? '&' : '?'}${query}`);
    return page as unknown as PageOf<Json>;
  });
}

/** Sends calls that the plan built at run time: types don't check their paths and bodies, the plan and the service do. */
export function caller(client: Client): Call {
  return async (method, path, body, headers = {}) => {
    const options = { body, headers } as never;
    const call = client.request(method.toLowerCase() as 'get', path as never, options);
    const { data, response } = (await call) as { data?: Json; response: Response };
    return { body: data as Json, etag: response.headers.get('etag') ?? undefined };
  };
}

export function sender(client: Client): Send {
  const call = caller(client);
  return async (method, path, body) => (await call(method, path, body)).body;
}
