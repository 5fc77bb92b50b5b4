import { newId, newUuid } from '@weighbridge/domain';
import { markLost, registerProducer } from '@weighbridge/ledger';
import { REQUEST_EXAMPLES } from '../src/openapi/requestExamples.ts';
import { putInQuarantine } from './quarantined.ts';
import type { TestApi } from './testApi.ts';
import { recordAttempts } from './usage.ts';

const dollars = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const PRICE = { input_price: dollars(1), output_price: dollars(2) };
const CATALOG_MODEL = { context_window: 1_000, price: PRICE };
/** Its credential does not exist, so no request is ever sent. */
const CONNECTOR = {
  provider: 'mock',
  dialect: 'openai',
  base_url: 'https://vendor.test/v1',
  credential_ref: 'env:NOT_THERE',
};
const PROFILE = { strategy: 'ordered', targets: [{ model: 'mock/echo' }] };

/** By path parameter: creates a resource that the operator may change, and returns its id. */
const PARAMETERS: Readonly<Record<string, (api: TestApi, operation: string) => Promise<string>>> = {
  key_id: async (api) => (await api.issue({ principal_id: 'an-owner' })).id,
  policy_id: async (api) => await made(api, '/policies', { name: 'made by a test' }),
  override_id: async (api) =>
    await made(api, '/overrides', {
      ...(await ownersCounter(api)),
      limit_micro_usd: 2_000,
      reason: 'made by a test',
      duration_seconds: 3_600,
    }),
  team_id: async (api) => await made(api, '/teams', { name: `made-${Math.random()}` }),
  principal_id: async (api, operation) => {
    // Each a new one: an operation may deactivate it.
    const id = (await api.issue({ principal_id: `made-${Math.random()}` })).principal_id as string;
    if (operation === 'deleteTeamMember') {
      // The newest team is the one in the same path.
      const { data } = (await api.call('GET', '/teams?page_size=1')).body as { data: { id: string }[] };
      await api.call('PUT', `/teams/${data[0]?.id}/members/${id}`, { body: { role: 'member' } });
    }
    return id;
  },
  request_id: async (api) => await requestOf(api, 'an-owner'),
  proxy_id: lostProxy,
  quarantine_id: async (api) => await putInQuarantine(api.db),
  connector_id: async (api) =>
    await made(api, '/connectors', { ...CONNECTOR, name: `made-${Math.random()}` }),
  model: async (api, operation) => {
    const model = `mock/made-${Math.random()}`;
    await api.call('PUT', `/catalog/models/${encodeURIComponent(model)}`, { body: CATALOG_MODEL });
    if (operation === 'deleteConnectorPrice') {
      // The first connector is the one in the same path.
      const { data } = (await api.call('GET', '/connectors?page_size=1')).body as { data: { id: string }[] };
      const path = `/connectors/${data[0]?.id}/prices/${encodeURIComponent(model)}`;
      await api.call('PUT', path, { body: PRICE });
    }
    return model;
  },
  alias_id: async (api) =>
    await made(api, '/aliases', { name: `made-${Math.random()}`, target: 'mock/echo' }),
  webhook_id: async (api) => {
    // There can be only 50.
    await api.db.deleteFrom('webhooks').execute();
    return await made(api, '/webhooks', { name: 'made by a test', url: 'https://hooks.test/' });
  },
  delivery_id: delivery,
  change_id: heldChange,
  profile_id: async (api) => await made(api, '/profiles', { ...PROFILE, name: `made-${Math.random()}` }),
};

/** Path parameters and bodies for tests that know an operation only from the OpenAPI document. */
export const fixtures = {
  async parameter(api: TestApi, name: string, operation: string): Promise<string> {
    const make = PARAMETERS[name];
    if (make) return await make(api, operation);
    throw new Error(
      `${operation} has the path parameter ${name}, which has no fixture: add it to PARAMETERS in apps/control-plane/test/fixtures.ts`,
    );
  },
  /** The example of the document. Names are unique. A PATCH changes nothing. */
  async body(api: TestApi, operation: string, method: string): Promise<unknown> {
    const example = REQUEST_EXAMPLES[operation];
    if (method === 'PATCH') return {};
    // A caller grants only scopes that it has.
    if (operation === 'createKey') return { name: 'made by a test' };
    if (operation === 'createOverride') return { ...example, ...(await ownersCounter(api)) };
    if (example) return 'name' in example ? { ...example, name: `made-${Math.random()}` } : example;
    throw new Error(
      `${operation} takes a body, for which the document has no example: add one to src/openapi/requestExamples.ts`,
    );
  },
  /** Operations that create the resource in their path if it does not exist, with ids that no resource can have. */
  creates: new Map<string, readonly string[]>([
    ['putPrincipal', [' ', ' ada', 'x'.repeat(201), 'a\nb', '\u0000', 'a\u202eb']],
    ['putCatalogModel', ['no-slash', 'OpenAI/x', '/x', 'acme/', 'acme/\u0000']],
  ]),
};

/** Of a new policy with a limit. */
async function ownersCounter(api: TestApi): Promise<{ policy_id: string; principal_id: string }> {
  const principal_id = 'an-owner';
  await api.call('PUT', `/principals/${principal_id}`, { body: {} });
  const policy_id = await made(api, '/policies', { name: 'made by a test', limit_micro_usd: 1_000 });
  return { policy_id, principal_id };
}

/** A request of a principal, in the team that it is in now. */
async function requestOf({ db, call }: TestApi, principal: string): Promise<string> {
  const { body } = await call('GET', `/principals/${principal}`);
  const team = body.team_id as string | null | undefined;
  return (await recordAttempts(db, [{ principal, ...(team && { team }) }]))[0] ?? '';
}

async function made(api: TestApi, path: string, body: unknown): Promise<string> {
  return (await api.call('POST', path, { body })).body.id as string;
}

/** Creates a model, and a change of its price that waits for a decision. */
async function heldChange({ db, call, now }: TestApi): Promise<string> {
  const model = `mock/made-${Math.random()}`;
  await call('PUT', `/catalog/models/${encodeURIComponent(model)}`, { body: { context_window: 1_000 } });
  const id = newId('fch');
  const none = {
    cache_read_nano_usd: '1',
    cache_write_nano_usd: '1',
    cache_write_1h_nano_usd: '1',
    tiers: [],
  };
  const price = { input_nano_usd: '1', output_nano_usd: '1', ...none };
  await db
    .insertInto('catalog_feed_changes')
    .values({
      id,
      model_id: model,
      state: 'held',
      held_because: 'the model had no price',
      price_after: JSON.stringify(price),
      created_at: now,
    })
    .execute();
  return id;
}

/** Of the one webhook, which is in the same path. */
async function delivery({ db, now }: TestApi): Promise<string> {
  const { id: webhook_id } = await db.selectFrom('webhooks').select('id').executeTakeFirstOrThrow();
  const [event_id, id] = [newId('evt'), newId('whd')];
  const event = { id: event_id, type: 'feed.refused', once_key: event_id, data: '{}' };
  await db
    .insertInto('webhook_events')
    .values({ ...event, created_at: now, dispatched_at: now })
    .execute();
  const times = { created_at: now, next_attempt_at: now, give_up_at: now };
  await db
    .insertInto('webhook_deliveries')
    .values({ id, webhook_id, event_id, state: 'pending', ...times })
    .execute();
  return id;
}

async function lostProxy({ db, now }: TestApi): Promise<string> {
  const epoch = newUuid();
  await registerProducer(db, { producerId: newUuid(), epoch, name: 'made by a test', now });
  await markLost(db, { silentSince: new Date(now.getTime() + 1), now });
  return epoch;
}
