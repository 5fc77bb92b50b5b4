import { allItems, type Client, type PageOf } from '@weighbridge/client';
import type { CurrentState } from './changes.ts';
import type { ApplyFile, Json } from './desiredState.ts';
import type { Call } from './lostUpdates.ts';
import type { Prunable } from './prune.ts';
import type { Send } from './runPlan.ts';

/** Reads only the sections that the file or `--prune` names. */
export async function readCurrentState(
  client: Client,
  file: ApplyFile,
  prune: readonly Prunable[],
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
      (['policies', 'teams', 'aliases', 'webhooks'] as const).some(uses) || file.principals.length > 0,
    ),
    teams: await list('/api/v1/teams', uses('teams') || uses('webhooks')),
    principals: await list('/api/v1/principals', file.principals.length > 0 || uses('teams')),
    models: await list('/api/v1/catalog/models', uses('models')),
    connectors,
    aliases: await list('/api/v1/aliases', uses('aliases')),
    webhooks: await list('/api/v1/webhooks', uses('webhooks')),
    prices: await pricesOf(send, priced),
  };
}

/** Everything that a file can contain. */
export async function readWholeState(client: Client): Promise<CurrentState> {
  const send = sender(client);
  // What others refer to comes last: what was created meanwhile is found, so that most changes do no harm.
  const webhooks = await listAll(send, '/api/v1/webhooks');
  const aliases = await listAll(send, '/api/v1/aliases');
  const principals = await listAll(send, '/api/v1/principals');
  const teams = await listAll(send, '/api/v1/teams');
  const connectors = await listAll(send, '/api/v1/connectors');
  const prices = await pricesOf(send, connectors);
  const models = await listAll(send, '/api/v1/catalog/models');
  const policies = await listAll(send, '/api/v1/policies');
  const profiles = await listAll(send, '/api/v1/profiles');
  return { profiles, policies, teams, principals, models, connectors, aliases, webhooks, prices };
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
    const page = await send('GET', `${path}?page_size=500&page_token=${encodeURIComponent(token)}`);
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
