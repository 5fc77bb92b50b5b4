import { createHmac, randomBytes } from 'node:crypto';
import { recordWebhookEvents, type WebhookEventType } from '@weighbridge/ledger';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { eventually } from '@weighbridge/testing';
import { Webhook as Verifier } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { startWebhookEndpoint, type WebhookEndpoint } from '../../../test/webhookEndpoint.ts';
import { loadConfig } from '../../config.ts';
import { startSender } from './sender.service.ts';

const MINUTE_MS = 60_000;
let endpoint: WebhookEndpoint;
let other: WebhookEndpoint;
let api: TestApi;
let env: Record<string, string>;
beforeAll(async () => {
  endpoint = await startWebhookEndpoint();
  other = await startWebhookEndpoint();
  env = {
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    ALLOWED_WEBHOOK_HOSTS: `${endpoint.host},${other.host}`,
    PUBLIC_URL: 'https://llm.acme.example/',
  };
  api = await startTestApi(env);
});
afterAll(async () => {
  await api.close();
  await endpoint.close();
  await other.close();
});

let clock = new Date();
let stops: (() => unknown)[] = [];
let log = '';
beforeEach(async () => {
  await api.db.deleteFrom('webhooks').execute();
  await api.db.deleteFrom('webhook_events').execute();
  for (const one of [endpoint, other]) {
    one.received.length = 0;
    one.answer((_request, response) => void response.writeHead(204).end());
  }
  clock = new Date();
  log = '';
});
afterEach(async () => {
  for (const stop of stops.reverse()) await stop();
  stops = [];
});

/** Another replica of the control plane, as far as it sends messages. */
function start(options: { readonly attemptTimeoutMs?: number } = {}): void {
  const config = loadConfig({
    DATABASE_URL: api.databaseUrl,
    CONTROL_PLANE_TOKEN: 'a token that the apps share',
    ...env,
  });
  const write = (line: string): void => {
    log += line;
  };
  const logger = createLogger('test', { write });
  const deps = { ...config, ...options, db: api.db, now: () => clock, logger, metrics: createMetrics() };
  startSender(deps, { onShutdown: (_name, stop) => void stops.push(stop) });
}

let count = 0;
async function create(fields: Json = {}): Promise<{ id: string; secret: string }> {
  const { status, body } = await api.call('POST', '/webhooks', {
    body: { name: `hook ${++count}`, url: endpoint.url, ...fields },
  });
  expect(status, JSON.stringify(body)).toBe(201);
  return body as { id: string; secret: string };
}

async function happen(onceKey: string, data: Json = {}, type: WebhookEventType = 'feed.refused') {
  await recordWebhookEvents(api.db, [{ type, onceKey, data }], clock);
}

type Delivery = Json & { readonly id: string; readonly attempts: number; readonly next_attempt_at: string };

async function deliveries(webhookId: string): Promise<Delivery[]> {
  return (await api.call('GET', `/webhooks/${webhookId}/deliveries`)).body.data as Delivery[];
}

describe('a message', () => {
  it('has a signature that standardwebhooks verifies, and names beside ids', async () => {
    const { body: policy } = await api.call('POST', '/policies', {
      body: { name: 'search', window: 'month', limit_micro_usd: 5_000_000 },
    });
    const key = await api.issue({ name: 'checkout', policy_id: policy.id });
    const { secret } = await create();
    await happen(
      'a',
      {
        policy_id: policy.id,
        counter: 'key',
        key_id: key.id,
        principal_id: null,
        window_start: '2026-11-01T00:00:00.000Z',
        percent: 80,
        limit_micro_usd: 5_000_000,
        spent_micro_usd: 4_100_000,
      },
      'budget.threshold',
    );
    start();
    await eventually(() => expect(endpoint.received).toHaveLength(1));
    const [{ text, headers } = { text: '', headers: {} }] = endpoint.received;
    const verified = new Verifier(secret).verify(text, headers as Record<string, string>);
    expect(verified).toEqual({
      type: 'budget.threshold',
      timestamp: clock.toISOString(),
      data: {
        policy_id: policy.id,
        policy_name: 'search',
        counter: 'key',
        key_id: key.id,
        key_name: 'checkout',
        principal_id: null,
        window: 'month',
        window_start: '2026-11-01T00:00:00.000Z',
        reset: '2026-12-01T00:00:00.000Z',
        percent: 80,
        limit_micro_usd: 5_000_000,
        spent_micro_usd: 4_100_000,
        url: `https://llm.acme.example/api/v1/policies/${policy.id}/counters`,
      },
    });
    expect(() => new Verifier(secret).verify(`${text} `, headers as Record<string, string>)).toThrow();
    expect(headers['webhook-id']).toMatch(/^evt_/);
  });

  it('has the signatures of both secrets during the grace of a rotation', async () => {
    const { id, secret } = await create();
    const rotated = await api.call('POST', `/webhooks/${id}/rotate`, { body: { grace_seconds: 3_600 } });
    clock = new Date(api.now);
    await happen('a');
    start();
    await eventually(() => expect(endpoint.received).toHaveLength(1));
    const [{ text, headers } = { text: '', headers: {} as Json }] = endpoint.received;
    const signatures = String(headers['webhook-signature']).split(' ');
    const expected = [String(rotated.body.secret), secret].map((one) => {
      const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${text}`;
      const bytes = Buffer.from(one.slice('whsec_'.length), 'base64');
      return `v1,${createHmac('sha256', bytes).update(signed).digest('base64')}`;
    });
    expect(signatures).toEqual(expected);
  });

  it('is made once, by any number of senders, and once for each time that it happened', async () => {
    const { id } = await create();
    for (let at = 0; at < 4; at++) start();
    await Promise.all(Array.from({ length: 40 }, (_, at) => happen(`key ${at % 10}`)));
    await eventually(() => expect(endpoint.received.length).toBeGreaterThanOrEqual(10));
    await eventually(async () =>
      expect((await deliveries(id)).map(({ state }) => state)).toEqual(Array(10).fill('delivered')),
    );
    expect(new Set(endpoint.received.map(({ headers }) => headers['webhook-id'])).size).toBe(10);
    expect(endpoint.received).toHaveLength(10);
  });

  it('goes to the webhooks that want it: by type, by policy and those below it', async () => {
    const policy = async (fields: Json) =>
      (await api.call('POST', '/policies', { body: { name: 'p', ...fields } })).body.id as string;
    const company = await policy({});
    const team = await policy({ parent_policy_id: company });
    const stranger = await policy({});
    const wanting = await create({ filter: { policy_ids: [company] } });
    const hooks = {
      all: await create(),
      typed: await create({ events: ['budget.exhausted'] }),
      company: wanting,
      team: await create({ filter: { policy_ids: [team] } }),
      stranger: await create({ filter: { policy_ids: [stranger] } }),
      disabled: await create({ enabled: false }),
    };
    await happen('of the team', { policy_id: team }, 'budget.exhausted');
    await happen('of the company', { policy_id: company }, 'budget.threshold');
    await happen('of none', {}, 'connector.down');
    start();
    const seen = async () => {
      const entries = Object.entries(hooks).map(async ([name, { id }]) => {
        const types = (await deliveries(id)).map(({ event }) => (event as Json).type as string);
        return [name, types.sort()] as const;
      });
      return Object.fromEntries(await Promise.all(entries));
    };
    await eventually(async () =>
      expect(await seen()).toEqual({
        all: ['budget.exhausted', 'budget.threshold', 'connector.down'],
        typed: ['budget.exhausted'],
        company: ['budget.exhausted', 'budget.threshold'],
        team: ['budget.exhausted'],
        stranger: [],
        disabled: [],
      }),
    );
  });

  it('goes to the webhooks of its team and of those above: by principal, by key, and by the policy of the team', async () => {
    const made = async (path: string, body: Json) =>
      (await api.call('POST', `/${path}`, { body })).body.id as string;
    const pool = await made('policies', { name: 'pool', counter_scope: 'policy' });
    const name = `team ${++count}`;
    const above = await made('teams', { name: `above ${name}` });
    const team = await made('teams', { name, parent_team_id: above, policy_id: pool });
    const stranger = await made('teams', { name: `other ${name}` });
    const principal = `of-${team}`;
    await api.call('PUT', `/teams/${team}/members/${principal}`, { body: { role: 'member' } });
    const key = await api.issue({ principal_id: principal });
    const outside = await api.issue({ principal_id: 'in-no-team' });
    const hooks = {
      above: await create({ filter: { team_ids: [above] } }),
      team: await create({ filter: { team_ids: [stranger, team] } }),
      stranger: await create({ filter: { team_ids: [stranger] } }),
      both: await create({ filter: { team_ids: [team], policy_ids: [pool] } }),
    };
    await happen('person', { policy_id: null, principal_id: principal }, 'budget.threshold');
    await happen('key', { key_id: key.id }, 'key.expiring');
    await happen('pool', { policy_id: pool, counter: 'policy', principal_id: null }, 'budget.exhausted');
    await happen('another', { key_id: outside.id }, 'key.expiring');
    await happen('none', {}, 'connector.down');
    start();
    const all = ['budget.exhausted', 'budget.threshold', 'key.expiring'];
    const expected = { above: all, team: all, stranger: [], both: ['budget.exhausted'] };
    await eventually(async () => {
      for (const [which, { id }] of Object.entries(hooks)) {
        const types = (await deliveries(id)).map(({ event }) => (event as Json).type);
        expect([which, types.sort()]).toEqual([which, expected[which as keyof typeof expected]]);
      }
    });
    const [{ event } = { event: {} }] = await deliveries(hooks.both.id);
    expect((event as Json).data).toMatchObject({ team_id: team, team_name: name });
    // A principal that moves takes its events along; a deleted team gets nothing, rather than all.
    await api.call('PUT', `/teams/${stranger}/members/${principal}`, { body: { role: 'member' } });
    await happen('moved', { principal_id: principal }, 'budget.threshold');
    await eventually(async () => expect(await deliveries(hooks.stranger.id)).toHaveLength(1));
    expect(await deliveries(hooks.above.id)).toHaveLength(3);
    await api.call('DELETE', `/teams/${team}`);
    await happen('late', { policy_id: pool }, 'budget.exhausted');
    await happen('last', { principal_id: principal }, 'budget.threshold');
    await eventually(async () => expect(await deliveries(hooks.stranger.id)).toHaveLength(2));
    expect(await deliveries(hooks.team.id)).toHaveLength(5);
    expect(await deliveries(hooks.both.id)).toHaveLength(1);
  });

  it('is not recorded without a webhook that wants it, so that what lasts is reported later', async () => {
    await happen('lasts');
    await create({ enabled: false });
    await create({ events: ['key.expiring'] });
    await happen('lasts');
    expect(await api.db.selectFrom('webhook_events').selectAll().execute()).toEqual([]);
    await create();
    await happen('lasts');
    expect(await api.db.selectFrom('webhook_events').selectAll().execute()).toHaveLength(1);
  });
});

describe('an endpoint that fails', () => {
  it('is tried again with the same id, less and less often, and given up after a day, visibly', async () => {
    endpoint.answer((_request, response) => void response.writeHead(500).end('broken <b>here</b>'));
    const { id } = await create();
    await happen('a');
    const began = clock;
    start();
    const state = async () => (await deliveries(id))[0];
    await eventually(async () => expect(await state()).toMatchObject({ attempts: 1, status: 500 }));
    const delays: number[] = [];
    while ((await state())?.state === 'pending') {
      const { attempts, next_attempt_at: next } = (await state()) as Delivery;
      delays.push(Date.parse(next) - clock.getTime());
      clock = new Date(next);
      await eventually(async () => expect((await state())?.attempts).toBe(attempts + 1));
      await eventually(async () => expect((await state())?.duration_ms).not.toBeNull());
      await eventually(async () => {
        const now = await state();
        expect(
          now?.state === 'given_up' || Date.parse(String(now?.next_attempt_at)) - clock.getTime() !== 15_000,
        ).toBe(true);
      });
    }
    expect(await state()).toMatchObject({
      state: 'given_up',
      error: 'It answered with 500: broken <b>here</b>',
    });
    expect(delays.every((delay, at) => at === 0 || delay > (delays[at - 1] ?? 0) * 0.8)).toBe(true);
    expect(clock.getTime() - began.getTime()).toBeGreaterThan(19 * 60 * MINUTE_MS);
    expect(clock.getTime() - began.getTime()).toBeLessThanOrEqual(24 * 60 * MINUTE_MS);
    expect(new Set(endpoint.received.map(({ headers }) => headers['webhook-id'])).size).toBe(1);
    expect(log).toContain('webhook delivery abandoned');
    expect((await api.call('GET', `/webhooks/${id}`)).body).toMatchObject({
      pending: 0,
      last_error: 'It answered with 500: broken <b>here</b>',
    });
  });

  it('can be sent a message again, with the same id', async () => {
    endpoint.answer((_request, response) => void response.writeHead(400).end());
    const { id } = await create();
    await happen('a');
    start();
    await eventually(async () => expect((await deliveries(id))[0]?.status).toBe(400));
    endpoint.answer((_request, response) => void response.writeHead(200).end());
    const [delivery] = await deliveries(id);
    await api.db
      .updateTable('webhook_deliveries')
      .set({ state: 'given_up', next_attempt_at: null })
      .execute();
    api.now = clock;
    const path = `/webhooks/${id}/deliveries/${delivery?.id}/redeliver`;
    expect((await api.call('POST', path)).body).toMatchObject({ state: 'pending', attempts: 0 });
    await eventually(async () => expect((await deliveries(id))[0]?.state).toBe('delivered'));
    const ids = endpoint.received.map(({ headers }) => headers['webhook-id']);
    expect(ids).toEqual([ids[0], ids[0]]);
  });

  it('waits as long as it asks for, up to an hour', async () => {
    endpoint.answer((_request, response) => void response.writeHead(429, { 'retry-after': '99999' }).end());
    const { id } = await create();
    await happen('a');
    start();
    await eventually(async () => expect((await deliveries(id))[0]?.status).toBe(429));
    const [delivery] = await deliveries(id);
    expect(Date.parse(String(delivery?.next_attempt_at)) - clock.getTime()).toBe(60 * MINUTE_MS);
  });

  it('is not followed to another address, private or not', async () => {
    endpoint.answer((_request, response) => void response.writeHead(307, { location: other.url }).end());
    const { id } = await create();
    await happen('a');
    start();
    await eventually(async () =>
      expect((await deliveries(id))[0]).toMatchObject({ status: 307, state: 'pending' }),
    );
    expect((await deliveries(id))[0]?.error).toContain('redirects');
    expect(other.received).toEqual([]);
  });

  it('is not reached at a private address, whatever its name resolved to when it was created', async () => {
    const { id } = await create();
    const url = endpoint.url.replace('127.0.0.1', 'localhost');
    await api.db.updateTable('webhooks').set({ url }).execute();
    await happen('a');
    start();
    await eventually(async () => expect((await deliveries(id))[0]?.error).toContain('ALLOWED_WEBHOOK_HOSTS'));
    expect(endpoint.received).toEqual([]);
  });

  it('may answer with 10 MB, of which the start is read', async () => {
    let sent = 0;
    endpoint.answer((_request, response) => {
      response.writeHead(500);
      const write = (): void => {
        if (response.destroyed || sent >= 10 * 1024 * 1024) return void response.end();
        sent += 65_536;
        response.write(Buffer.alloc(65_536, 'x'), () => setImmediate(write));
      };
      write();
    });
    const { id } = await create();
    await happen('a');
    start();
    await eventually(async () => expect((await deliveries(id))[0]).toMatchObject({ status: 500 }));
    expect(String((await deliveries(id))[0]?.error).length).toBeLessThan(300);
    expect(sent).toBeLessThan(10 * 1024 * 1024);
  });

  it('does not delay others, even if it never answers', async () => {
    endpoint.answer(() => {});
    await create();
    const healthy = await create({ url: other.url });
    for (let at = 0; at < 30; at++) await happen(`key ${at}`);
    // The attempts that hang do not end in this test.
    start({ attemptTimeoutMs: 3_600_000 });
    await eventually(() => expect(other.received).toHaveLength(30));
    expect(endpoint.received.length).toBeLessThanOrEqual(2);
    await eventually(async () =>
      expect((await deliveries(healthy.id)).every(({ state }) => state === 'delivered')).toBe(true),
    );
  });

  it('that is never answered fails after a time-out', async () => {
    endpoint.answer(() => {});
    const { id } = await create();
    await happen('a');
    start({ attemptTimeoutMs: 200 });
    await eventually(async () =>
      expect((await deliveries(id))[0]?.error).toBe('It did not answer within 200 ms.'),
    );
  });

  it('is taken over from a sender that died in an attempt, with the same id', async () => {
    const { id } = await create();
    await happen('a');
    start();
    await eventually(async () => expect((await deliveries(id))[0]?.state).toBe('delivered'));
    // As a sender leaves it that posted the message and died.
    const next_attempt_at = new Date(clock.getTime() + 15_000);
    await api.db.updateTable('webhook_deliveries').set({ state: 'pending', next_attempt_at }).execute();
    clock = new Date(clock.getTime() + 15_000);
    await eventually(async () => expect((await deliveries(id))[0]?.state).toBe('delivered'));
    expect(endpoint.received.map(({ headers }) => headers['webhook-id'])).toEqual([
      endpoint.received[0]?.headers['webhook-id'],
      endpoint.received[0]?.headers['webhook-id'],
    ]);
  });
});

describe('the test of a webhook', () => {
  it('sends one message, whether or not it is enabled, and says how that went', async () => {
    const { id, secret } = await create({ enabled: false });
    const good = await api.call('POST', `/webhooks/${id}/test`);
    expect(good.body).toMatchObject({ ok: true, status: 204, delivery_id: expect.stringMatching(/^whd_/) });
    const [{ text, headers } = { text: '', headers: {} as Json }] = endpoint.received;
    expect(JSON.parse(text)).toMatchObject({ type: 'webhook.test', data: { webhook_id: id } });
    expect(String(headers['webhook-signature'])).toMatch(/^v1,/);
    expect(secret).toMatch(/^whsec_/);
    endpoint.answer((_request, response) => void response.writeHead(403).end('{"error":"no"}'));
    const bad = await api.call('POST', `/webhooks/${id}/test`);
    expect(bad.body).toMatchObject({
      ok: false,
      status: 403,
      message: 'It answered with 403: {"error":"no"}',
    });
    expect((await deliveries(id)).map(({ state }) => state)).toEqual(['given_up', 'delivered']);
  });
});
