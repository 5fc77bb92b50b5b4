import { randomBytes, randomUUID } from 'node:crypto';
import { eventually } from '@weighbridge/testing';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

const CACHE = { scope: 'principal', ttl_seconds: 3_600 };

let cluster: Cluster;
beforeAll(async () => {
  const dataPlane = {
    RESPONSE_CACHE_SHARED: 'true',
    RESPONSE_CACHE_KEY: randomBytes(32).toString('base64'),
  };
  cluster = await startCluster({ proxies: 2, env: { dataPlane } });
});
afterAll(() => cluster?.close());

async function ask(key: string, content: string, { proxy = 0, model = 'mock/echo' } = {}) {
  const baseURL = `${cluster.proxies[proxy]?.url}/v1`;
  const { response } = await new OpenAI({ baseURL, apiKey: key, maxRetries: 0 }).chat.completions
    .create({ model, messages: [{ role: 'user', content }] })
    .withResponse();
  const { headers } = response;
  return { cache: headers.get('x-svc-cache'), requestId: headers.get('x-request-id') ?? '' };
}

/** A key with its own policy, which enables the cache. */
async function cachedKey(name: string) {
  const policy = await manage(cluster, 'POST', '/api/v1/policies', { body: { name, cache: CACHE } });
  const policyId = String(policy.body.id);
  const { key } = await cluster.caller(name, { policy_id: policyId });
  return { key, policyId };
}

describe('the response cache', () => {
  it('answers if a policy enables it, until it is disabled, and the ledger records the hit', async () => {
    const { key, policyId } = await cachedKey('cached');
    const content = randomUUID();
    const [first, again] = [await ask(key, content), await ask(key, content)];
    expect([first.cache, again.cache]).toEqual(['miss', 'hit']);
    expect(cluster.vendor.bill).toHaveLength(1);

    const read = async (id: string) => (await manage(cluster, 'GET', `/api/v1/requests/${id}`)).body;
    await eventually(async () => {
      const attempt = { model: 'mock/echo', outcome: 'success' };
      expect(await read(first.requestId)).toMatchObject({ attempts: [{ ...attempt, cache_hit: false }] });
      expect(await read(again.requestId)).toMatchObject({
        cost_micro_usd: 0,
        attempts: [{ ...attempt, cache_hit: true, input_tokens: 0, output_tokens: 0, cost_nano_usd: '0' }],
      });
    });

    const path = `/api/v1/policies/${policyId}?wait=propagated`;
    expect((await manage(cluster, 'PATCH', path, { body: { cache: null } })).status).toBe(200);
    expect((await ask(key, content)).cache).toBe('bypass');
  });

  it('answers requests of a profile that enables it', async () => {
    const name = 'cached-profile';
    const targets = [{ model: 'mock/echo' }];
    const settings = { name, strategy: 'ordered', targets, cache: CACHE };
    const created = await manage(cluster, 'POST', '/api/v1/profiles', { body: settings });
    expect([created.status, created.body.cache]).toEqual([201, CACHE]);
    const { key } = await cluster.caller('by-profile');
    const content = randomUUID();
    const byProfile = { model: `router/${name}` };
    await eventually(async () => expect((await ask(key, content, byProfile)).cache).toBe('hit'));
    expect((await ask(key, content)).cache).toBe('bypass');
    const path = `/api/v1/profiles/${created.body.id}`;
    const changed = await manage(cluster, 'PATCH', path, { body: { cache: null } });
    expect([changed.status, changed.body.cache]).toEqual([200, null]);
    await eventually(async () => expect((await ask(key, content, byProfile)).cache).toBe('bypass'));
  });

  it('does not answer a revoked key', async () => {
    const { key } = await cachedKey('revoked');
    const content = randomUUID();
    await ask(key, content);
    expect((await ask(key, content)).cache).toBe('hit');
    const { body } = await manage(cluster, 'GET', '/api/v1/keys?page_size=500');
    const revoked = (body.data as { id: string; name: string }[]).find(({ name }) => name === 'revoked');
    await manage(cluster, 'DELETE', `/api/v1/keys/${revoked?.id}?wait=propagated`);
    await expect(ask(key, content)).rejects.toMatchObject({ status: 401 });
  });

  it('is shared by all proxies through NATS', async () => {
    const { key } = await cachedKey('shared');
    // The proxy waits only briefly for the store. On a busy machine it may give up: send another request then.
    await eventually(async () => {
      const content = randomUUID();
      expect((await ask(key, content)).cache).toBe('miss');
      await new Promise((resolve) => setTimeout(resolve, 200));
      expect((await ask(key, content, { proxy: 1 })).cache).toBe('hit');
    });
  });
});
