import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { HostileCase } from './hostileCase.ts';
import { MAX_KEYS, operate } from './product.ts';
import type { Tenant } from './scene.ts';

type Json = Record<string, unknown>;

/** What a tenant does at the operator API with a valid key. */
export const MANAGEMENT: readonly HostileCase[] = [
  {
    row: 'keys issued by a leaked key outlive it',
    title: 'they are revoked with it, also those that it issues at that moment',
    async run({ product, tenant }) {
      const leaked = await tenant();
      const issue = async (key: string) =>
        await manage(product, 'POST', '/api/v1/keys', {
          key,
          body: { name: 'hidden', scopes: ['keys:write'] },
        });
      const child = (await issue(leaked.key)).body as Json;
      const grandchild = (await issue(String(child.key))).body as Json;
      const racing = Promise.all(
        Array.from({ length: 8 }, (_, n) => issue(n % 2 === 0 ? leaked.key : String(child.key))),
      );
      const path = `/api/v1/keys/${leaked.keyId}?descendants=true&wait=propagated`;
      const revoked = await operate(product, 'DELETE', path);
      const late = (await racing).filter(({ status }) => status === 201).map(({ body }) => body as Json);
      for (const { key } of [child, grandchild, ...late]) {
        const answer = await manage(product, 'GET', '/api/v1/models', { key: String(key) });
        expect(answer.status).toBe(401);
        const inference = await fetch(`${product.inferenceUrl}/v1/models`, {
          headers: { authorization: `Bearer ${key}` },
        });
        expect(inference.status).toBe(401);
      }
      expect(revoked).toMatchObject({ descendants: { revoked: 2 + late.length, unknown_issuer: 0 } });
    },
  },
  {
    row: '1,001 keys by one principal',
    title: 'the principal has as many keys as it may, however many requests ask at once',
    async run({ product, tenant }) {
      const mine = await tenant();
      let issued = 1;
      const codes = new Set<string>();
      const issueOne = async () => {
        const body = { name: 'one of many', scopes: ['inference'] };
        const answer = await manage(product, 'POST', '/api/v1/keys', { key: mine.key, body });
        if (answer.status === 201) issued++;
        else codes.add(`${answer.status} ${((answer.body as Json).error as Json).code}`);
      };
      const worker = async () => {
        while (issued < MAX_KEYS + 10 && codes.size === 0) await issueOne();
      };
      await Promise.all(Array.from({ length: 12 }, worker));
      expect([issued, [...codes]]).toEqual([MAX_KEYS, ['409 key_limit_reached']]);
    },
  },
  {
    row: 'a key that is used unseen',
    title: 'last_used_at follows every use: reads, refusals and what leaves no usage event',
    async run({ product, tenant }) {
      const scopes = ['inference', 'keys:read'];
      const bare = { messages: [], model: 'openai/plain' };
      // Each way has its own key.
      const ways: Readonly<Record<string, (one: Tenant) => Promise<[status: number, expected: number]>>> = {
        'a management read': async (one) => [
          (await manage(product, 'GET', `/api/v1/keys/${one.keyId}`, { key: one.key })).status,
          200,
        ],
        'a management refusal': async (one) => [
          (await manage(product, 'GET', '/api/v1/policies', { key: one.key })).status,
          403,
        ],
        'a missing resource': async (one) => [
          (await manage(product, 'GET', '/api/v1/keys/key_none', { key: one.key })).status,
          404,
        ],
        'a list of models': async (one) => [(await one.ask('/v1/models', undefined)).status, 200],
        'a stored response': async (one) => [(await one.ask('/v1/responses/a%20b', undefined)).status, 404],
        'counted tokens': async (one) => [
          (await one.ask('/v1/messages/count_tokens', { ...bare, model: 'anthropic/none' })).status,
          404,
        ],
        'a model that the policy does not allow': async (one) => [
          (await one.ask('/v1/chat/completions', { ...bare, model: 'anthropic/plain' })).status,
          403,
        ],
        'an unknown model': async (one) => [
          (await one.ask('/v1/embeddings', { ...bare, model: 'x/y' })).status,
          404,
        ],
        'a malformed body': async (one) => [(await one.ask('/v1/chat/completions', '{')).status, 400],
        'a budget that is used up': async (one) => [
          (await one.ask('/v1/chat/completions', { ...bare, messages: [{ role: 'user', content: 'x' }] }))
            .status,
          429,
        ],
      };
      const policy = { limit_micro_usd: 0, allowed_models: ['openai/*', 'anthropic/none', 'x/*'] };
      const used = await Promise.all(
        Object.entries(ways).map(async ([way, use]) => {
          const one = await tenant(policy, { scopes });
          const usedAt = Date.now();
          const [status, expected] = await use(one);
          expect([way, status]).toEqual([way, expected]);
          return { way, keyId: one.keyId, usedAt };
        }),
      );
      const unused = await tenant(policy, { scopes });
      await eventually(
        async () => {
          const late = await Promise.all(
            used.map(async ({ way, keyId, usedAt }) => {
              const { last_used_at: at } = await operate(product, 'GET', `/api/v1/keys/${keyId}`);
              // The clocks of processes differ by milliseconds.
              return Date.parse(String(at)) >= usedAt - 100 ? [] : [way];
            }),
          );
          expect(late.flat()).toEqual([]);
        },
        { intervalMs: 500 },
      );
      expect((await operate(product, 'GET', `/api/v1/keys/${unused.keyId}`)).last_used_at).toBeNull();
    },
  },
  {
    row: 'page tokens',
    title: 'one that was made up, changed, or given to someone else is refused, on every list',
    async run({ product, tenant }) {
      const mine = await tenant();
      await operate(product, 'POST', `/api/v1/keys`, { name: 'second', principal_id: mine.mark });
      const list = async (query: string, key?: string) =>
        await manage(product, 'GET', `/api/v1/keys${query}`, key === undefined ? {} : { key });
      const token = String((await list('?page_size=1', mine.key)).body.next_page_token);
      const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url');
      // The next key of the list, by a position that the tenant computed.
      const forged = encode(['keys', '2099-01-01T00:00:00.000Z', mine.keyId]);
      const texts = [
        'nonsense',
        forged,
        `${forged}.${token.split('.')[1]}`,
        `${token}A`,
        token.replace(/^./, (first) => (first === 'W' ? 'X' : 'W')),
        encode(null),
        'A'.repeat(9_000),
        '%00',
        '%ff',
        '%F0%9F%98%80',
        `${token}&page_token=${token}`,
      ];
      const refusals = await Promise.all(
        texts.map(async (text) => refusalOf(await list(`?page_token=${text}`, mine.key))),
      );
      expect(refusals).toEqual(texts.map(() => '400 invalid_page_token'));
      // Another caller's, and one of this caller's for another list.
      expect(refusalOf(await list(`?page_token=${token}`))).toBe('400 invalid_page_token');
      const other = await manage(product, 'GET', `/api/v1/requests?page_token=${token}`, { key: mine.key });
      expect(refusalOf(other)).toBe('400 invalid_page_token');
      expect((await list('?page_token=', mine.key)).status).toBe(200);
      expect((await list(`?page_size=1&page_token=${token}`, mine.key)).body.data).toHaveLength(1);
    },
  },
  {
    row: 'malformed ids',
    title: 'are 404 at any length, whatever their bytes',
    async run({ product, tenant }) {
      const mine = await tenant();
      const ids = [
        'x'.repeat(10_000),
        `key_${'0'.repeat(3_000)}`,
        '%00',
        '%ff%fe',
        '%',
        '%2F..%2F',
        '%F0%9F%98%80',
        "'%20OR%201=1",
      ];
      const paths = ids.flatMap((id) => [
        `/api/v1/keys/${id}`,
        `/api/v1/keys/${id}/usage`,
        `/api/v1/policies/${id}`,
        `/api/v1/principals/${id}`,
        `/api/v1/connectors/${id}`,
        `/api/v1/profiles/${id}`,
        `/api/v1/requests/${id}`,
        `/api/v1/quarantine/${id}`,
        `/api/v1/catalog/models/${id}`,
        `/api/v1/catalog/models/${id}/prices`,
      ]);
      const statuses = await Promise.all(
        paths.map(async (path) => [path.slice(0, 60), (await manage(product, 'GET', path)).status]),
      );
      expect(statuses).toEqual(paths.map((path) => [path.slice(0, 60), 404]));
      for (const id of ids) {
        const read = await mine.ask(`/v1/responses/${id}`, undefined);
        expect([id.slice(0, 20), read.status]).toEqual([id.slice(0, 20), 404]);
        const anonymous = await manage(product, 'GET', `/api/v1/keys/${id}`, { key: 'none' });
        expect([id.slice(0, 20), anonymous.status]).toEqual([id.slice(0, 20), 401]);
      }
    },
  },
];

function refusalOf({ status, body }: { readonly status: number; readonly body: Json }): string {
  return `${status} ${(body.error as Json | undefined)?.code}`;
}
