import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import {
  chat,
  expectCovered,
  expectExact,
  type HostileCase,
  hard,
  message,
  PLENTY,
  responses,
} from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

const ROW = 'the body and its answer pass byte for byte';

/** The bodies that a vendor got of a tenant. */
function sentBodies({ vendor }: Scene, mark: string): string[] {
  return vendor('local')
    .requests.filter(({ headers }) => headers['x-mark'] === mark)
    .map(({ body }) => body.toString());
}

/** A profile that prefers `openai/plain` until it is turned around. */
async function turningProfile({ product }: Scene, name: string) {
  const targets = [{ model: 'openai/plain' }, { model: 'local/plain' }];
  const profile = { name, strategy: 'ordered', targets };
  const { id } = await operate(product, 'POST', '/api/v1/profiles', profile);
  return async () => {
    await operate(product, 'PATCH', `/api/v1/profiles/${id}`, { targets: targets.toReversed() });
  };
}

/** What the service may change on the inference side, and what a client may see of that. */
export const INFERENCE: readonly HostileCase[] = [
  {
    row: ROW,
    title: 'stream_options that are no object go out as they came, and the answer is paid for',
    async run(scene) {
      const tried = await scene.tenant(hard(PLENTY));
      const options = ['null', '1e2', '"include_usage"', '[{"include_usage":true}]'];
      const script = { 'output-tokens': '300' };
      for (const given of options) {
        const body = `{"model":"local/plain","stream":true,"max_tokens":400,"stream_options":${given},"messages":[{"role":"user","content":"weigh"}]}`;
        const { status } = await tried.ask('/v1/chat/completions', body, { script });
        // The vendor takes null, and refuses the others itself.
        expect([given, status]).toEqual([given, given === 'null' ? 200 : 400]);
      }
      const sent = sentBodies(scene, tried.mark);
      expect(sent.map((body) => /"stream_options":(.*?),"messages"/.exec(body)?.[1])).toEqual(options);
      await expectCovered(tried, options.length);
    },
  },
  {
    row: ROW,
    title: 'a stream that did not ask for its usage shows no sign that the service did',
    async run({ tenant }) {
      const tried = await tenant();
      const fields = { stream: true, max_tokens: 50 };
      const plain = await tried.ask('/v1/chat/completions', chat('local/plain', fields));
      expect(plain.text).toContain('data: [DONE]');
      expect(plain.text).not.toContain('usage');
      const asking = { ...fields, stream_options: { include_usage: true } };
      const asked = await tried.ask('/v1/chat/completions', chat('local/plain', asking));
      expect(asked.text).toMatch(/"usage":null/);
      expect(asked.text).toMatch(/"usage":\{.*"choices":\[\]/);
      await expectExact(tried, 2);
    },
  },
  {
    row: 'attribution never fails a request',
    title: 'values of any size and bytes are cut, skipped or kept, and the row is in the ledger',
    async run({ tenant }) {
      const tried = await tenant();
      // Bytes that are no UTF-8; characters of four bytes; 60 KiB in one value, and in many.
      const bytes = (text: string) => Buffer.from(text).toString('latin1');
      const shapes: Record<string, string>[] = [
        { 'x-svc-session-id': 's'.repeat(60_000), 'x-svc-user': 'u'.repeat(300) },
        { 'x-svc-labels': Array.from({ length: 7_000 }, (_, at) => `k${at}=${at}`).join(',') },
        {
          'x-svc-labels': Array.from({ length: 40 }, (_, at) => bytes(`k${at}=${'😀'.repeat(300)}`)).join(
            ',',
          ),
        },
        {
          'x-svc-user': '\xff\xfe',
          'x-svc-team': '\xc3(',
          'x-svc-labels': '\xed\xa0\x80=\xf8,=,,x,__proto__=1',
        },
        { 'x-svc-user': '', 'x-svc-workload-type': '\t', 'x-svc-session-id': ' ', 'x-svc-labels': ',=,' },
      ];
      for (const headers of shapes) {
        const { status, text } = await tried.ask('/v1/chat/completions', chat('local/plain'), { headers });
        expect([status, text.slice(0, 200)]).toEqual([200, expect.stringContaining('chat.completion')]);
      }
      const rows = await tried.rows(shapes.length);
      const sessions = rows.map(({ attribution }) => attribution as Record<string, unknown>);
      expect(sessions.find(({ session_id: id }) => id)).toMatchObject({
        session_id: 's'.repeat(256),
        user: 'u'.repeat(256),
      });
      for (const { labels = {} } of sessions)
        expect(Object.keys(labels as object).length).toBeLessThanOrEqual(32);
      expect(sessions.find(({ team }) => team)).toMatchObject({ user: 'ÿþ', team: 'Ã(' });
    },
  },
  {
    row: 'a model that does not exist',
    title: 'is answered with the nearest names that the key can reach, and no other',
    async run({ tenant }) {
      const free = await tenant();
      const bound = await tenant({ allowed_models: ['local/*'] });
      const asked = chat('opennai/plain');
      const all = await free.ask('/v1/chat/completions', asked);
      expect([all.status, all.code]).toEqual([404, 'model_not_found']);
      expect(all.text).toMatch(/Did you mean [^?]*openai\/plain/);
      const some = await bound.ask('/v1/chat/completions', asked);
      expect([some.status, some.code]).toEqual([404, 'model_not_found']);
      expect(some.text).toContain('Did you mean local/plain?');
    },
  },
  {
    row: 'a request that is too large for its budget',
    title: 'says so, and names the output limit that fits, in the field of its operation',
    async run({ tenant }) {
      const asked: [string, string, object][] = [
        ['max_tokens', '/v1/chat/completions', chat('local/plain', { max_tokens: 100_000 })],
        ['max_output_tokens', '/v1/responses', responses({ max_output_tokens: 100_000 })],
        ['max_tokens', '/v1/messages', message({ max_tokens: 100_000 })],
      ];
      for (const [field, path, body] of asked) {
        const tried = await tenant(hard(50_000));
        const refused = await tried.ask(path, body);
        expect([refused.status, refused.code]).toEqual([429, 'budget_exhausted']);
        expect(refused.headers.get('x-should-retry')).toBe('false');
        expect(refused.text).toContain('more than the whole budget');
        const limit = new RegExp(`Lower ${field} to about (\\d+)`).exec(refused.text)?.[1];
        expect(Number(limit)).toBeGreaterThan(100);
        const script = { 'output-tokens': '20' };
        const { status } = await tried.ask(path, { ...body, [field]: Number(limit) }, { script });
        expect(status).toBe(200);
        expect(tried.billed()).toBeLessThanOrEqual(50_000);
      }
    },
  },
  {
    row: 'one pin per conversation',
    title:
      'a session stays where it is on another route; prompt_cache_key pins nothing unless the profile says so',
    async run(scene) {
      const tried = await scene.tenant();
      const turn = await turningProfile(scene, 'one-conversation');
      const model = 'router/one-conversation';
      const shared = { prompt_cache_key: 'all-of-us' };
      const session = { headers: { 'x-svc-session-id': 's' } };
      const servedBy = async (path: string, body: object, asking = {}) =>
        (await tried.ask(path, body, asking)).headers.get('x-svc-model');
      const askChat = (asking = {}) => servedBy('/v1/chat/completions', chat(model, shared), asking);
      await eventually(async () => expect(await askChat(session)).toBe('openai/plain'));
      await turn();
      await eventually(async () => expect(await askChat()).toBe('local/plain'));
      expect(await servedBy('/v1/responses', { ...responses(), model }, session)).toBe('openai/plain');
      expect(await askChat(session)).toBe('openai/plain');
    },
  },
];
