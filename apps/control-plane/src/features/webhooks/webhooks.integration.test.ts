import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { startWebhookEndpoint, type WebhookEndpoint } from '../../../test/webhookEndpoint.ts';
import { resealWebhooks } from './secrets.ts';

const KEK = randomBytes(32).toString('base64');
const URL_OF_HOOK = 'https://hooks.acme.example/a?sig=1';

let api: TestApi;
let endpoint: WebhookEndpoint;
beforeAll(async () => {
  endpoint = await startWebhookEndpoint();
  api = await startTestApi({
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: KEK,
    ALLOWED_WEBHOOK_HOSTS: `${endpoint.host},*.hooks.local`,
  });
});
afterAll(async () => {
  await api.close();
  await endpoint.close();
});

let count = 0;
async function create(fields: Json = {}) {
  const body = { name: `hook ${++count}`, url: URL_OF_HOOK, ...fields };
  const created = await api.call('POST', '/webhooks', { body });
  expect(created.status, JSON.stringify(created.body)).toBe(201);
  return created.body as Json & { id: string; secret: string };
}

describe('a webhook', () => {
  it('shows its secret once, and stores it sealed', async () => {
    const { secret, ...webhook } = await create({ events: ['budget.threshold', 'budget.threshold'] });
    expect(webhook).toMatchObject({
      id: expect.stringMatching(/^whk_/),
      format: 'json',
      events: ['budget.threshold'],
      filter: { policy_ids: [], team_ids: [] },
      enabled: true,
      pending: 0,
    });
    expect(Buffer.from(secret.replace('whsec_', ''), 'base64')).toHaveLength(32);
    expect((await api.call('GET', `/webhooks/${webhook.id}`)).body).toEqual(webhook);
    const row = await api.db
      .selectFrom('webhooks')
      .selectAll()
      .where('id', '=', webhook.id)
      .executeTakeFirstOrThrow();
    expect(row.secret_sealed.includes(Buffer.from(secret.slice(6), 'base64'))).toBe(false);
    const audited = JSON.stringify((await api.call('GET', `/audit?resource_id=${webhook.id}`)).body);
    expect(audited).toContain('webhook.created');
    expect(audited).not.toContain('sig=1');
    expect(audited + api.log()).not.toContain(secret.slice(6));
  });

  it('shows its url to operators alone, and an auditor its host', async () => {
    const { id } = await create();
    expect((await api.call('PUT', '/principals/an-auditor', { body: { role: 'auditor' } })).status).toBe(200);
    const { key } = await api.issue({ principal_id: 'an-auditor', scopes: ['admin:read'] });
    const one = await api.call('GET', `/webhooks/${id}`, { key });
    const list = await api.call('GET', '/webhooks', { key });
    expect([one.status, list.status]).toEqual([200, 200]);
    expect(one.body.url).toBe('https://hooks.acme.example/… (for operators)');
    expect(JSON.stringify([one.body, list.body])).not.toContain('sig=1');
    expect((await api.call('GET', `/webhooks/${id}`)).body.url).toBe(URL_OF_HOOK);
    // It is no url that could be stored by mistake.
    const back = api.call('PATCH', `/webhooks/${id}`, { body: { url: one.body.url } });
    expect(await outcome(back)).toEqual([422, 'url_invalid']);
  });

  it('is changed in the given fields, listed by name and deleted', async () => {
    const { id } = await create({ name: 'zebra' });
    const path = `/webhooks/${id}`;
    const before = (await api.call('GET', path)).body;
    expect((await api.call('PATCH', path, { body: {} })).body).toEqual(before);
    const { body: policy } = await api.call('POST', '/policies', { body: { name: 'filtered' } });
    const body = { name: 'aardvark', events: [], filter: { policy_ids: [policy.id] }, enabled: false };
    expect((await api.call('PATCH', path, { body })).body).toMatchObject(body);
    const { body: team } = await api.call('POST', '/teams', { body: { name: 'filtered' } });
    const ofTeam = { filter: { team_ids: [team.id] } };
    // A filter is replaced as a whole.
    expect((await api.call('PATCH', path, { body: ofTeam })).body).toMatchObject({
      filter: { policy_ids: [], team_ids: [team.id] },
    });
    const { data } = (await api.call('GET', '/webhooks?enabled=false')).body as { data: Json[] };
    expect(data.map(({ name }) => name)).toEqual(['aardvark']);
    expect((await api.call('GET', '/webhooks?page_size=1')).body).toMatchObject({
      data: [{ name: 'aardvark' }],
    });
    expect((await api.call('DELETE', path)).status).toBe(200);
    expect(await outcome(api.call('GET', path))).toEqual([404, 'webhook_not_found']);
  });

  it('is created once for an idempotency key, with the same secret', async () => {
    const headers = { 'idempotency-key': 'hook-1' };
    const call = () => api.call('POST', '/webhooks', { headers, body: { name: 'once', url: URL_OF_HOOK } });
    const first = await call();
    const second = await call();
    expect(second.body).toEqual(first.body);
    expect(second.headers['idempotency-replayed']).toBe('true');
  });

  it('may bring its own secret', async () => {
    const secret = `whsec_${randomBytes(24).toString('base64')}`;
    expect((await create({ secret })).secret).toBe(secret);
  });

  it('keeps the secret before a rotation for its grace', async () => {
    const { id, secret } = await create();
    const { body } = await api.call('POST', `/webhooks/${id}/rotate`, { body: { grace_seconds: 60 } });
    expect(body.secret).not.toBe(secret);
    expect(body.previous_secret_until).toBe('2026-11-20T10:01:00.000Z');
    const { body: again } = await api.call('POST', `/webhooks/${id}/rotate`);
    expect(again.previous_secret_until).toBeNull();
  });

  it('is for operators: to members it neither exists nor can be made', async () => {
    const { id } = await create();
    const { key } = await api.issue({ scopes: ['keys:read', 'keys:write', 'usage:read', 'models:read'] });
    for (const [method, path, body] of [
      ['GET', '/webhooks', undefined],
      ['POST', '/webhooks', { name: 'mine', url: URL_OF_HOOK }],
      ['GET', `/webhooks/${id}`, undefined],
      ['PATCH', `/webhooks/${id}`, {}],
      ['DELETE', `/webhooks/${id}`, undefined],
      ['POST', `/webhooks/${id}/rotate`, {}],
      ['POST', `/webhooks/${id}/test`, undefined],
      ['GET', `/webhooks/${id}/deliveries`, undefined],
      ['POST', `/webhooks/${id}/deliveries/whd_01kafyq2s0e5fvf6m8x4n9r7td/redeliver`, undefined],
    ] as const) {
      expect(await outcome(api.call(method, path, { key, body }))).toEqual([403, 'insufficient_scope']);
    }
  });

  it('can be part of a plan', async () => {
    const calls = [
      {
        method: 'POST',
        path: '/api/v1/webhooks',
        body: { name: 'planned', url: URL_OF_HOOK },
        creates: '{w}',
      },
      { method: 'PATCH', path: '/api/v1/webhooks/{w}', body: { enabled: false } },
      { method: 'POST', path: '/api/v1/webhooks', body: { name: 'inside', url: 'https://10.0.0.1/' } },
      { method: 'POST', path: '/api/v1/webhooks/{w}/test' },
    ];
    const { body } = await api.call('POST', '/apply', { body: { calls, dry_run: true } });
    expect((body.errors as Json[]).map(({ index, code }) => [index, code])).toEqual([
      [2, 'url_invalid'],
      [3, 'not_plannable'],
    ]);
    expect((await api.call('GET', '/webhooks?name_contains=planned')).body.data).toEqual([]);
  });

  it('is sealed again under a new key-encryption key', async () => {
    const { id } = await create({ format: 'pagerduty', routing_key: 'R0UT1NGKEY' });
    const { loadConfig } = await import('../../config.ts');
    const { credentials } = loadConfig({
      DATABASE_URL: api.databaseUrl,
      CONTROL_PLANE_TOKEN: 'a token that the apps share',
      WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
      WEIGHBRIDGE_PREVIOUS_KEY_ENCRYPTION_KEYS: KEK,
    });
    const { resealed, unopened } = await resealWebhooks({ db: api.db, credentials }, api.now);
    expect([resealed > 0, unopened]).toEqual([true, 0]);
    const row = await api.db
      .selectFrom('webhooks')
      .selectAll()
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    expect([row.secret_kek_id, row.routing_key_kek_id]).toEqual([
      credentials.sealer.currentKekId,
      credentials.sealer.currentKekId,
    ]);
    await api.db.deleteFrom('webhooks').execute();
  });
});

describe('what a webhook can be', () => {
  it.each([
    [{ url: 'http://hooks.acme.example/' }, 422, 'url_invalid'],
    [{ url: 'https://10.0.0.7/' }, 422, 'url_invalid'],
    [{ url: 'https://169.254.169.254/latest' }, 422, 'url_invalid'],
    [{ url: 'https://[::1]/' }, 422, 'url_invalid'],
    [{ url: 'https://[::ffff:10.0.0.1]/' }, 422, 'url_invalid'],
    [{ url: 'https://0x7f000001/' }, 422, 'url_invalid'],
    [{ url: 'https://2130706433/' }, 422, 'url_invalid'],
    [{ url: 'https://localhost/' }, 422, 'url_invalid'],
    [{ url: 'https://a.localhost./' }, 422, 'url_invalid'],
    [{ url: 'https://user:pw@hooks.acme.example/' }, 422, 'url_invalid'],
    [{ url: 'ftp://hooks.acme.example/' }, 422, 'url_invalid'],
    [{ url: 'file:///etc/passwd' }, 422, 'url_invalid'],
    [{ url: 'hooks.acme.example' }, 422, 'url_invalid'],
    [{ url: 'https://hooks.acme.example/#a' }, 422, 'url_invalid'],
    [{ url: 'https://hooks.acme.example/ a' }, 422, 'url_invalid'],
    [{ url: '' }, 422, 'url_invalid'],
    [{ name: '' }, 422, 'name_invalid'],
    [{ name: 'taken' }, 409, 'webhook_name_taken'],
    [{ secret: 'whsec_short' }, 422, 'secret_invalid'],
    [{ secret: randomBytes(32).toString('base64') }, 422, 'secret_invalid'],
    [{ routing_key: 'R0UT1NGKEY' }, 422, 'routing_key_invalid'],
    [{ format: 'pagerduty' }, 422, 'routing_key_invalid'],
    [{ format: 'pagerduty', routing_key: 'a b' }, 422, 'routing_key_invalid'],
    [{ filter: { policy_ids: ['pol_none'] } }, 422, 'policy_not_found'],
    [{ filter: { team_ids: ['team_none'] } }, 422, 'team_not_found'],
    [{ filter: { teams: [] } }, 400, 'invalid_request'],
    [{ format: 'xml' }, 400, 'invalid_request'],
    [{ events: ['budget.none'] }, 400, 'invalid_request'],
    [{ enabled: 'true' }, 400, 'invalid_request'],
    [{ other: 1 }, 400, 'invalid_request'],
  ])('%j is refused: %d %s', async (fields, status, code) => {
    await api.call('POST', '/webhooks', { body: { name: 'taken', url: URL_OF_HOOK } });
    const body = { name: 'new', url: URL_OF_HOOK, ...fields };
    expect(await outcome(api.call('POST', '/webhooks', { body }))).toEqual([status, code]);
  });

  it('a host that the deployment allows may be private and without TLS', async () => {
    await create({ url: 'http://alerts.hooks.local:8080/a' });
    expect((await create({ url: endpoint.url })).url).toBe(endpoint.url);
  });

  it('a format that needs a routing key has one as long as it is used', async () => {
    const { id } = await create({ format: 'pagerduty', routing_key: 'R0UT1NGKEY' });
    const change = (body: Json) => outcome(api.call('PATCH', `/webhooks/${id}`, { body }));
    expect(await change({ format: 'pagerduty', enabled: true })).toEqual([200, undefined]);
    expect(await change({ format: 'slack' })).toEqual([200, undefined]);
    expect(await change({ format: 'pagerduty' })).toEqual([422, 'routing_key_invalid']);
    expect(await change({ format: 'pagerduty', routing_key: 'N3WR0UT1NG' })).toEqual([200, undefined]);
    expect(JSON.stringify((await api.call('GET', `/webhooks/${id}`)).body)).not.toContain('R0UT1NG');
  });

  it('there are at most 50', async () => {
    await api.db.deleteFrom('webhooks').execute();
    for (let at = 0; at < 50; at++) await create();
    const body = { name: 'one more', url: URL_OF_HOOK };
    expect(await outcome(api.call('POST', '/webhooks', { body }))).toEqual([409, 'too_many_webhooks']);
    await api.db.deleteFrom('webhooks').execute();
  });
});
