import { connect } from 'node:net';
import { expect } from 'vitest';
import { chat, type HostileCase, message, responses } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Answer, Scene, Tenant } from './scene.ts';
import { seen } from './walls.cases.ts';

/** Under the default policy, no answer tells whether an object is another principal's or is not there at all. */

type Json = Record<string, unknown>;
type Script = Record<string, string>;

const UNKNOWN_ROW = "an unknown object and another principal's";

/** What a vendor may say to a request that it does not take, and how it may fail. */
const VENDOR_SAYS: readonly Script[] = [
  { status: '400' },
  { status: '403' },
  { status: '404' },
  { status: '409' },
  { status: '422' },
  { status: '429' },
  { status: '401' },
  { status: '500' },
  { status: '503' },
  { reset: 'before' },
  { reset: 'headers' },
];

async function expectSame(answers: readonly Answer[], status: number, what: unknown): Promise<void> {
  const [first, ...others] = answers.map(seen);
  expect([what, first]).toMatchObject([what, { status }]);
  for (const other of others) expect([what, other]).toEqual([what, first]);
}

/** A response of one tenant in a conversation, with the ids of what it names. */
async function made(tenant: Tenant, conversation: string) {
  const tools = [{ type: 'code_interpreter', container: { type: 'auto' } }];
  const { json } = await tenant.ask('/v1/responses', responses({ conversation, tools }), {
    script: { 'tool-uses': 'code_interpreter=1' },
  });
  const output = json.output as Json[];
  const item = output.find(({ type }) => type === 'message')?.id;
  const container = output.find(({ type }) => type === 'code_interpreter_call')?.container_id;
  return { response: String(json.id), item: String(item), container: String(container), conversation };
}

const UNKNOWN = {
  response: 'resp_nowhere',
  item: 'msg_nowhere',
  container: 'cntr_nowhere',
  conversation: 'conv_nowhere',
};

/** Every way to name one of them in a request for a response. */
const naming = ({ response, item, container, conversation }: typeof UNKNOWN): object[] => [
  { previous_response_id: response },
  { conversation },
  { conversation: { id: conversation } },
  { input: [{ type: 'item_reference', id: item }] },
  { tools: [{ type: 'code_interpreter', container }] },
  { stream: true, previous_response_id: response },
  // Before the one in question, one that is surely not there.
  { previous_response_id: UNKNOWN.response, conversation },
  { input: [{ type: 'item_reference', id: UNKNOWN.item }], conversation },
];

export const OBJECTS: readonly HostileCase[] = [
  {
    row: UNKNOWN_ROW,
    title: 'are one 404 on every route of a response, whatever a vendor says or however it fails',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const { response } = await made(mine, 'conv_read');
      for (const script of VENDOR_SAYS) {
        for (const [method, rest] of [
          ['GET', ''],
          ['GET', '?include[]=nonsense'],
          ['GET', '/input_items'],
          ['POST', '/cancel'],
          ['DELETE', ''],
        ] as const) {
          const ask = (id: string) => other.ask(`/v1/responses/${id}${rest}`, undefined, { method, script });
          const what = JSON.stringify([script, method, rest]);
          await expectSame([await ask(response), await ask(UNKNOWN.response)], 404, what);
        }
      }
      // Its owner learns what failed.
      const failed = await mine.ask(`/v1/responses/${response}`, undefined, { script: { status: '503' } });
      expect(failed.status).toBe(503);
    },
  },
  {
    row: UNKNOWN_ROW,
    title: 'are one 404 in a request, whatever a vendor says or however it fails',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const [theirs, unknown] = [naming(await made(mine, 'conv_named')), naming(UNKNOWN)];
      for (const [at, fields] of theirs.entries()) {
        for (const script of VENDOR_SAYS) {
          const ask = (of: object) => other.ask('/v1/responses', responses(of), { script });
          const what = JSON.stringify([script, Object.keys(fields)]);
          await expectSame([await ask(fields), await ask(unknown[at] ?? {})], 404, what);
        }
        // A mistake elsewhere, which a vendor may find first.
        const ask = (of: object) => other.ask('/v1/responses', responses({ ...of, nonsense: 1 }));
        await expectSame([await ask(fields), await ask(unknown[at] ?? {})], 404, Object.keys(fields));
      }
    },
  },
  {
    row: UNKNOWN_ROW,
    title: "are one 404 in a compaction, whose own items are its maker's alone",
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const named = await made(mine, 'conv_compacted');
      const compact = (tenant: Tenant, fields: object, script: Script = {}) =>
        tenant.ask('/v1/responses/compact', responses(fields), { script });
      // As a vendor says to an item that is not there.
      const none = { status: '404' };
      for (const fields of [
        { previous_response_id: named.response },
        { input: [{ type: 'item_reference', id: named.item }] },
      ]) {
        const unknown = JSON.parse(JSON.stringify(fields).replace(/(resp|msg)_[^"]+/g, '$1_nowhere'));
        const refused = [await compact(other, fields, none), await compact(other, unknown, none)];
        await expectSame(refused, 404, fields);
        expect((await compact(mine, fields)).status).toBe(200);
      }
      const { json } = await compact(mine, {});
      const [item] = (json.output as Json[]).map(({ id }) => String(id));
      const ask = (fields: object) => other.ask('/v1/responses', responses(fields), { script: none });
      const after = (id: unknown) => ask({ previous_response_id: id });
      await expectSame([await after(json.id), await after(UNKNOWN.response)], 404, 'its id');
      const refer = (id = '') => ask({ input: [{ type: 'item_reference', id }] });
      await expectSame([await refer(item), await refer(UNKNOWN.item)], 404, 'its item');
    },
  },
  {
    row: UNKNOWN_ROW,
    title: "are one 404 in a message's errors too, streamed, counted or not",
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const run = { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] };
      const { text } = await mine.ask('/v1/messages', message(run), {
        script: { 'tool-uses': 'code_execution=1' },
      });
      const container = String(/"container":\{"id":"([^"]+)"/.exec(text)?.[1]);
      for (const script of VENDOR_SAYS) {
        for (const [path, body] of [
          ['/v1/messages', message(run)],
          ['/v1/messages', message({ ...run, stream: true })],
          ['/v1/messages/count_tokens', chat('anthropic/plain')],
        ] as const) {
          const ask = (id: string) => other.ask(path, { ...body, container: id }, { script });
          await expectSame([await ask(container), await ask('container_nowhere')], 404, [path, script]);
        }
      }
    },
  },
  {
    row: UNKNOWN_ROW,
    title: "are told apart neither by a key's limits, nor by what its policy refuses or caches",
    async run(scene) {
      const mine = await scene.tenant();
      const { response, conversation } = await made(mine, 'conv_limits');
      const pairs: [string, object, object][] = [
        ['response', { previous_response_id: response }, { previous_response_id: UNKNOWN.response }],
        ['conversation', { conversation }, { conversation: UNKNOWN.conversation }],
      ];
      const script = { status: '400' };
      const policies: [Json, object, number][] = [
        [{ limit_micro_usd: 0 }, {}, 429],
        [{ requests_per_minute: 1 }, {}, 429],
        [{ limit_micro_usd: 1_000_000_000, budget_mode: 'hard' }, { background: true }, 400],
        [{ allowed_models: ['openai/plain'] }, { models: ['dear'] }, 403],
        [{ cache: { scope: 'policy', ttl_seconds: 60 } }, { store: false }, 404],
      ];
      for (const [policy, fields, status] of policies) {
        const other = await scene.tenant(policy);
        if ('requests_per_minute' in policy) await other.ask('/v1/responses', responses());
        for (const [what, theirs, unknown] of pairs) {
          const ask = (of: object) => other.ask('/v1/responses', responses({ ...of, ...fields }), { script });
          const answers = [await ask(theirs), await ask(unknown)];
          // The seconds that are left, and what the length of an id costs, are no one's secret.
          const shown = answers.map((answer) => {
            const { headers: _, text, ...rest } = seen(answer);
            return { ...rest, text: String(text).replace(/\d+/g, '') };
          });
          expect([policy, what, shown[0]]).toMatchObject([policy, what, { status }]);
          expect(shown[1]).toEqual(shown[0]);
          const names = answers.map(({ headers }) => [...headers.keys()]);
          expect(names[1]).toEqual(names[0]);
        }
      }
    },
  },
  {
    row: 'a file, which is made outside the service',
    title: 'is a 404 if the vendor does not know it, and any other refusal passes through',
    async run(scene) {
      const tenant = await scene.tenant();
      const content = [{ type: 'input_file', file_id: 'file-outside' }];
      const input = [{ role: 'user', content }];
      const ask = (fields: object, script: Script = {}) =>
        tenant.ask('/v1/responses', responses({ input, ...fields }), { script });
      const unknown = await ask({}, { status: '404' });
      expect([unknown.status, unknown.code]).toEqual([404, 'object_not_found']);
      const refused = await ask({ nonsense: 1 });
      expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('nonsense')]);
      const busy = await ask({}, { status: '503' });
      expect([busy.status, busy.text]).toEqual([503, expect.stringContaining('overloaded')]);
    },
  },
  {
    row: 'a cached answer',
    title: 'is no one’s who may not name the objects of its request',
    async run(scene) {
      const policy = await operate(scene.product, 'POST', '/api/v1/policies', {
        name: 'shared-cache',
        cache: { scope: 'policy', ttl_seconds: 60 },
      });
      const [mine, other] = [
        await scene.tenant({}, { policy_id: policy.id }),
        await scene.tenant({}, { policy_id: policy.id }),
      ];
      const { item } = await made(mine, 'conv_cached');
      const body = responses({ store: false, input: [{ type: 'item_reference', id: item }] });
      for (let at = 0; at < 2; at++) {
        const own = await mine.ask('/v1/responses', body);
        expect([own.status, own.headers.get('x-svc-cache')]).toEqual([200, 'bypass']);
      }
      expect((await other.ask('/v1/responses', body)).status).toBe(404);
    },
  },
  {
    row: "another principal's request",
    title: 'is no other than one that has not arrived, to who scores it',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const { headers } = await mine.ask('/v1/chat/completions', chat('local/plain'));
      const id = String(headers.get('x-request-id'));
      await mine.rows(1);
      // No row of the ledger has its id.
      const unknown = await other.ask('/v1/chat/completions', chat('local/no-such'));
      const score = (requestId: string) => other.ask('/v1/feedback', { request_id: requestId, score: 1 });
      const answers = [await score(id), await score(String(unknown.headers.get('x-request-id')))];
      expect(answers.map(({ status, json }) => [status, json.status])).toEqual([
        [202, 'pending'],
        [202, 'pending'],
      ]);
    },
  },
  {
    row: 'the memory of a body',
    title: 'is not lost if its client leaves while its key is looked up',
    async run(scene) {
      // Each body in chunks takes 1 MiB; the process has 96 for all.
      for (let at = 0; at < 12; at++) {
        const { key } = await scene.tenant();
        await Promise.all(Array.from({ length: 24 }, () => sendNoBody(scene, key)));
      }
      const tenant = await scene.tenant();
      const body = new Blob([JSON.stringify(chat('local/plain'))]).stream();
      const { status } = await fetch(`${scene.product.inferenceUrl}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${tenant.key}`, 'content-type': 'application/json' },
        body,
        duplex: 'half',
      } as RequestInit);
      expect(status).toBe(200);
    },
  },
];

/** A request with malformed chunks: the server closes the connection while it still looks up the key. */
async function sendNoBody({ product }: Scene, key: string): Promise<void> {
  const { hostname, port } = new URL(product.inferenceUrl);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => {});
  const lines = [
    'POST /v1/chat/completions HTTP/1.1',
    'Host: x',
    `Authorization: Bearer ${key}`,
    'Transfer-Encoding: chunked',
  ];
  socket.write(`${lines.join('\r\n')}\r\n\r\n0\r\n\r\nnonsense\r\n\r\n`);
  await new Promise((resolve) => socket.once('close', resolve));
}
