import { allItems, type Client, type PageOf } from '@weighbridge/client';
import type { CurrentState } from './changes.ts';
import type { ApplyFile, Json } from './desiredState.ts';
import { limitsByModel } from './planWarnings.ts';
import type { Prunable } from './prune.ts';

/** Reads a resource or a page of a list. */
export type Read = (path: string) => Promise<Json>;

const OVERRIDES = '/api/v1/overrides?active=true';

/** Reads only the sections that the file or `--prune` names. */
export async function readCurrentState(
  client: Client,
  file: ApplyFile,
  prune: readonly Prunable[],
  owner: string,
): Promise<CurrentState> {
  const read = reader(client);
  const list = (path: string, wanted: boolean) => (wanted ? listAll(read, path) : []);
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
    models: await list('/api/v1/catalog/models', uses('models') || limitsByModel(file).length > 0),
    connectors,
    aliases: await list('/api/v1/aliases', uses('aliases')),
    webhooks: await list('/api/v1/webhooks', uses('webhooks')),
    keys: await list(keysOf(owner), uses('keys')),
    prices: await pricesOf(read, priced),
  };
}

/** Everything that a file can contain. */
async function readWholeState(client: Client, owner: string): Promise<CurrentState> {
  const read = reader(client);
  // What others refer to comes last: what was created meanwhile is found, so that most changes do no harm.
  const keys = await listAll(read, keysOf(owner));
  const webhooks = await listAll(read, '/api/v1/webhooks');
  const aliases = await listAll(read, '/api/v1/aliases');
  const overrides = await listAll(read, OVERRIDES);
  const principals = await listAll(read, '/api/v1/principals');
  const teams = await listAll(read, '/api/v1/teams');
  const connectors = await listAll(read, '/api/v1/connectors');
  const prices = await pricesOf(read, connectors);
  const models = await listAll(read, '/api/v1/catalog/models');
  const policies = await listAll(read, '/api/v1/policies');
  const profiles = await listAll(read, '/api/v1/profiles');
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
  const page = await reader(client)(`/api/v1/audit?page_size=${AUDITED}`);
  return (page as unknown as PageOf<Json>).data;
}

/** The keys that `apply` issued for an owner's files. */
function keysOf(owner: string): string {
  return `/api/v1/keys?revoked=false&managed_by=${encodeURIComponent(owner)}`;
}

async function pricesOf(read: Read, connectors: readonly Json[]): Promise<Record<string, Json[]>> {
  const prices: Record<string, Json[]> = {};
  for (const { id } of connectors) {
    prices[String(id)] = await listAll(read, `/api/v1/connectors/${String(id)}/prices`);
  }
  return prices;
}

/** All items of a list, over all its pages. */
export async function listAll(read: Read, path: string): Promise<Json[]> {
  return await allItems(async (token) => {
    const query = `page_size=500&page_token=${encodeURIComponent(token)}`;
    const page = await read(`${path}${path.includes('?') ? '&' : '?'}${query}`);
    return page as unknown as PageOf<Json>;
  });
}

/** Reads paths that were built at run time, which types don't check. */
export function reader(client: Client): Read {
  return async (path) => {
    const { data } = (await client.GET(path as never, {} as never)) as { data?: Json };
    return data as Json;
  };
}
