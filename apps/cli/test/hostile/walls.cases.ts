import { expect } from 'vitest';
import { chat, type HostileCase, message, responses } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Answer, Scene, Tenant } from './scene.ts';

/** A tenant can't reach what another one has at a vendor, nor learn whether there is such a thing. */

type Json = Record<string, unknown>;
const OWN = { foreign_objects: 'own' };

/** All that a caller sees of an answer, but for what names the request and the time. */
export function seen({ status, headers, text, json }: Answer): Json {
  const id = String((json.error as Json | undefined)?.request_id ?? json.request_id ?? '-');
  const shown = Object.fromEntries(
    [...headers].filter(([name]) => !['date', 'request-id', 'x-request-id'].includes(name)),
  );
  return { status, headers: shown, text: text.replaceAll(id, 'req') };
}

/** What vendors got from a tenant. */
export function received({ vendors }: Scene, { mark }: Tenant): string[] {
  return vendors.flatMap(({ requests }) =>
    requests.filter(({ headers }) => headers['x-mark'] === mark).map(({ path }) => path),
  );
}

/** Expects the same answer to all, a 404, and no vendor to be asked. */
async function expectUnknown(
  scene: Scene,
  tenant: Tenant,
  asks: readonly (() => Promise<Answer>)[],
): Promise<void> {
  const before = received(scene, tenant).length;
  const answers: Json[] = [];
  for (const ask of asks) answers.push(seen(await ask()));
  for (const answer of answers) expect(answer).toMatchObject({ status: 404 });
  expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
  expect(received(scene, tenant)).toHaveLength(before);
}

const idOf = ({ json }: Answer) => String(json.id);
const itemOf = ({ json }: Answer, type: string) => (json.output as Json[]).find((item) => item.type === type);
const create = (tenant: Tenant, fields: object = {}, script: Record<string, string> = {}) =>
  tenant.ask('/v1/responses', responses(fields), { script });
const interpreter = { tools: [{ type: 'code_interpreter', container: { type: 'auto' } }] };

export const WALLS: readonly HostileCase[] = [
  {
    row: "another principal's response",
    title: 'is answered as an unknown one, a deleted one and an impossible id, on every route',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant({ requests_per_minute: 1_000 })];
      const id = idOf(await create(mine));
      const gone = idOf(await create(other));
      expect((await other.ask(`/v1/responses/${gone}`, undefined, { method: 'DELETE' })).status).toBe(200);
      for (const [method, rest] of [
        ['GET', ''],
        ['GET', '/input_items'],
        ['POST', '/cancel'],
        ['DELETE', ''],
      ] as const) {
        const answers: Json[] = [];
        for (const one of [id, 'resp_unknown', gone, 'resp%2Fx']) {
          const answer = await other.ask(`/v1/responses/${one}${rest}`, undefined, { method });
          const { headers, ...shown } = seen(answer);
          // The numbers of the limit change with each request; the names must not.
          const others = Object.entries(headers as Json).map(([name, value]) =>
            /ratelimit.*(remaining|reset)/.test(name) ? [name] : [name, value],
          );
          answers.push({ ...shown, headers: others });
        }
        expect(answers[0]).toMatchObject({ status: 404 });
        for (const answer of answers) expect(answer).toEqual(answers[0]);
      }
      expect((await mine.ask(`/v1/responses/${id}`, undefined)).status).toBe(200);
    },
  },
  {
    row: "another principal's object in a request",
    title: 'is 404, whatever kind it is and however it is named, and no vendor gets it',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const made = await create(
        mine,
        { conversation: 'conv_walls', ...interpreter },
        { 'tool-uses': 'code_interpreter=1' },
      );
      expect(made.status).toBe(200);
      const [response, item] = [idOf(made), String(itemOf(made, 'message')?.id)];
      const container = String(itemOf(made, 'code_interpreter_call')?.container_id);
      const attacks: (object | string)[] = [
        { previous_response_id: response },
        { conversation: 'conv_walls' },
        { conversation: { id: 'conv_walls' } },
        { input: [{ type: 'item_reference', id: item }] },
        { input: [{ id: item }] },
        { tools: [{ type: 'code_interpreter', container }] },
        { prompt_cache_options: { comparison_response_id: response } },
        { stream: true, conversation: 'conv_walls' },
        `{"model":"openai/plain","input":"x","conv\\u0065rsation":"conv_walls"}`,
        `{"model":"openai/plain","input":[{"type":"message","type":"item_reference","id":"${item}"}]}`,
        // In another field than its own.
        { conversation: response },
      ];
      for (const attack of attacks) {
        const body = typeof attack === 'string' ? attack : responses(attack);
        const answer = await other.ask('/v1/responses', body);
        expect([answer.status, JSON.stringify(attack)]).toEqual([404, JSON.stringify(attack)]);
      }
      expect(received(scene, other)).toEqual([]);
      // The owner goes on with all of them.
      const follow = { previous_response_id: response, input: [{ type: 'item_reference', id: item }] };
      expect((await create(mine, follow)).status).toBe(200);
      expect((await create(mine, { tools: [{ type: 'code_interpreter', container }] })).status).toBe(200);
    },
  },
  {
    row: "another principal's object in a request",
    title: 'that a stream named is 404 as soon as the stream has named it',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const script = { chunks: '20', 'chunk-delay-ms': '50', 'output-tokens': '20' };
      const url = `${scene.product.inferenceUrl}/v1/responses`;
      const headers = {
        authorization: `Bearer ${mine.key}`,
        'content-type': 'application/json',
        ...Object.fromEntries(Object.entries(script).map(([name, value]) => [`x-mock-${name}`, value])),
      };
      const body = JSON.stringify(responses({ stream: true, store: false }));
      const stream = await fetch(url, { method: 'POST', headers, body });
      let text = '';
      for await (const part of stream.body as AsyncIterable<Uint8Array>) {
        text += Buffer.from(part).toString();
        const item = /"id":"(msg_[^"]+)"/.exec(text)?.[1];
        if (item === undefined) continue;
        const answer = await create(other, { input: [{ type: 'item_reference', id: item }] });
        expect(answer.status).toBe(404);
        break;
      }
      expect(text).toContain('"msg_');
    },
  },
  {
    row: 'a response that was not to be stored',
    title: "is its maker's too, in case the vendor stored it",
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const id = idOf(await create(mine, { store: false }));
      await expectUnknown(scene, other, [() => other.ask(`/v1/responses/${id}`, undefined)]);
      await expectUnknown(scene, other, [() => create(other, { previous_response_id: id })]);
    },
  },
  {
    row: 'ids that are more than an id',
    title: 'are 404 without asking anyone',
    async run(scene) {
      const tenant = await scene.tenant();
      const id = idOf(await create(tenant));
      const before = received(scene, tenant).length;
      const ids = [
        ...[
          `${id}%2Finput_items`,
          '..%2Fmodels',
          '%2e%2e',
          `${id}%3Fx`,
          `${id}%23`,
          `${id}%5C..`,
          `${id}%252F..`,
        ],
        ...[`${id}%00`, `${id}%0d%0a`, `${id}%20`, '%C3%A9', 'x'.repeat(513)],
      ];
      for (const one of ids) {
        const path = `/v1/responses/${one}`;
        const answers = [
          await tenant.ask(path, undefined),
          await tenant.ask(path, undefined, { method: 'DELETE' }),
          await tenant.ask(`${path}/input_items`, undefined),
          await tenant.ask(`${path}/cancel`, undefined, { method: 'POST' }),
        ];
        expect([one, ...answers.map(({ status }) => status)]).toEqual([one, 404, 404, 404, 404]);
        const decoded = decodeURIComponent(one);
        // A longer text is not read at all.
        const refused = decoded.length > 512 ? 400 : 404;
        for (const field of ['previous_response_id', 'conversation']) {
          expect((await create(tenant, { [field]: decoded })).status).toBe(refused);
        }
      }
      expect(received(scene, tenant)).toHaveLength(before);
    },
  },
  {
    row: 'objects that were made outside',
    title:
      'are as unknown as those of others if the policy or its parent says so, and go to the vendor otherwise',
    async run(scene) {
      const { product } = scene;
      const parent = await operate(product, 'POST', '/api/v1/policies', { name: 'walls', ...OWN });
      expect(parent.foreign_objects).toBe('own');
      const mine = await scene.tenant();
      const theirs = await create(mine, { conversation: 'conv_theirs' });
      for (const policy of [OWN, { parent_policy_id: parent.id }]) {
        const strict = await scene.tenant(policy);
        const inRequest = (fields: object) => () => create(strict, fields);
        await expectUnknown(scene, strict, [
          () => strict.ask('/v1/responses/resp_outside', undefined),
          () => strict.ask(`/v1/responses/${idOf(theirs)}`, undefined),
        ]);
        await expectUnknown(scene, strict, [
          inRequest({ conversation: 'conv_outside' }),
          inRequest({ conversation: 'conv_theirs' }),
        ]);
        await expectUnknown(scene, strict, [
          inRequest({ previous_response_id: 'resp_outside' }),
          inRequest({ previous_response_id: idOf(theirs) }),
        ]);
        const file = (part: object) => ({ input: [{ role: 'user', content: [part] }] });
        await expectUnknown(scene, strict, [
          inRequest(file({ type: 'input_file', file_id: 'file-outside' })),
        ]);
        await expectUnknown(scene, strict, [
          inRequest({ tools: [{ type: 'file_search', vector_store_ids: ['vs_outside'] }] }),
        ]);
        const part = { type: 'file', file: { file_id: 'file-outside' } };
        await expectUnknown(scene, strict, [
          () =>
            strict.ask('/v1/chat/completions', {
              ...chat('openai/plain'),
              messages: [{ role: 'user', content: [part] }],
            }),
        ]);
        // What it made itself is its own.
        const made = await create(strict);
        expect((await create(strict, { previous_response_id: idOf(made) })).status).toBe(200);
        expect((await strict.ask(`/v1/responses/${idOf(made)}`, undefined)).status).toBe(200);
      }
      const tenant = await scene.tenant();
      const search = { tools: [{ type: 'file_search', vector_store_ids: ['vs_outside'] }] };
      expect((await create(tenant, search)).status).toBe(200);
      expect((await create(tenant, { conversation: 'conv_outside' })).status).toBe(200);
      expect(received(scene, tenant)).toHaveLength(2);
    },
  },
  {
    row: 'objects of a message',
    title: "are their maker's, in that dialect's errors",
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const script = { 'tool-uses': 'code_execution=1' };
      const run = { tools: [{ type: 'code_execution_20250825', name: 'code_execution' }] };
      for (const stream of [false, true]) {
        const made = await mine.ask('/v1/messages', message({ ...run, stream }), { script });
        const container = /"container":\{"id":"([^"]+)"/.exec(made.text)?.[1];
        expect(container).toMatch(/^container_/);
        const stolen = await other.ask('/v1/messages', message({ ...run, container }));
        expect(stolen.json).toMatchObject({ type: 'error', error: { type: 'not_found_error' } });
        const counted = await other.ask('/v1/messages/count_tokens', {
          ...chat('anthropic/plain'),
          container,
        });
        expect([stolen.status, counted.status]).toEqual([404, 404]);
        expect((await mine.ask('/v1/messages', message({ ...run, container }))).status).toBe(200);
      }
      expect(received(scene, other)).toEqual([]);
      const strict = await scene.tenant(OWN);
      const source = { type: 'file', file_id: 'file_outside' };
      const content = [{ type: 'document', source }];
      await expectUnknown(scene, strict, [
        () => strict.ask('/v1/messages', message({ messages: [{ role: 'user', content }] })),
      ]);
    },
  },
  {
    row: 'objects of several accounts',
    title: 'are a clear 400, and each alone goes to its account',
    async run(scene) {
      const tenant = await scene.tenant();
      const first = await create(tenant);
      const second = await create(tenant, { model: 'local/plain' });
      const both = {
        previous_response_id: idOf(first),
        input: [{ type: 'item_reference', id: String(itemOf(second, 'message')?.id) }],
      };
      const answer = await create(tenant, both);
      expect([answer.status, answer.code]).toEqual([400, 'objects_of_several_accounts']);
      expect(answer.json).toMatchObject({ error: { param: 'previous_response_id' } });
      for (const { input, model } of [
        { input: both.input, model: 'local/plain' },
        {
          input: [{ type: 'item_reference', id: String(itemOf(first, 'message')?.id) }],
          model: 'openai/plain',
        },
      ]) {
        expect((await create(tenant, { input, model })).status).toBe(200);
      }
    },
  },
];
