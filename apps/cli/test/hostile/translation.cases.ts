import { expect } from 'vitest';
import { expectExact, type HostileCase, hard } from './hostileCase.ts';
import type { Answer, Scene, Tenant } from './scene.ts';

type Json = Record<string, unknown>;

const GEMINI = '/v1beta/models/anthropic/plain:generateContent';
const LAST = { role: 'user', content: 'weigh' };
const CALL = { type: 'tool_use', id: 'call_1', name: 'weigh', input: {} };
const RESULT = { type: 'tool_result', tool_use_id: 'call_1', content: '40' };
const assistant = (...content: object[]) => ({ role: 'assistant', content });
const user = (...content: object[]) => ({ role: 'user', content });
const messages = (model: string, turns: readonly object[], more: Json = {}) => ({
  model,
  max_tokens: 1_000,
  messages: turns,
  ...more,
});

function sentBy({ vendors }: Scene, { mark }: Tenant): string[] {
  return vendors.flatMap(({ requests }) =>
    requests.filter(({ headers }) => headers['x-mark'] === mark).map(({ body }) => String(body)),
  );
}

const THINKS = { 'reasoning-tokens': '5' };

/** A response of Claude's for a caller of responses: its reasoning is in an envelope. */
async function sealedFor(tenant: Tenant): Promise<{ readonly item: Json; readonly sealed: string }> {
  const body = { model: 'anthropic/plain', input: 'weigh', store: false, reasoning: { effort: 'low' } };
  const { json } = await tenant.ask('/v1/responses', body, { script: THINKS });
  const item = (json.output as Json[]).find(({ type }) => type === 'reasoning') ?? {};
  const sealed = String(item.encrypted_content);
  expect(sealed).toMatch(/^wb1\./);
  return { item, sealed };
}

/** An envelope with each of its fields changed, cut and repeated. */
function forgeries(sealed: string): string[] {
  const fields = sealed.split('.');
  return [
    ...fields.slice(1).map((field, at) => {
      const changed = [...fields];
      changed[at + 1] = `${field.startsWith('A') ? 'B' : 'A'}${field.slice(1)}`;
      return changed.join('.');
    }),
    ...fields.map((_, at) => fields.slice(0, at + 1).join('.')),
    `${sealed}.${sealed}`,
    `wb1.${'.'.repeat(1_000)}`,
    `wb1.${'A'.repeat(100_000)}`,
  ];
}

/** A turn with what is said to be an opaque value, in each dialect. */
const TURNS: readonly ((value: string) => readonly [path: string, body: Json])[] = [
  (value) => [
    '/v1/responses',
    {
      model: 'anthropic/plain',
      store: false,
      input: [{ type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: value }, LAST],
    },
  ],
  (value) => [
    '/v1/messages',
    messages('openai/plain', [
      LAST,
      assistant({ type: 'thinking', thinking: 'Hm.', signature: value }, { type: 'text', text: 'x' }),
      LAST,
    ]),
  ],
  (value) => [
    '/v1/messages',
    messages('anthropic/plain', [
      LAST,
      assistant({ type: 'redacted_thinking', data: value }, { type: 'text', text: 'x' }),
      LAST,
    ]),
  ],
  (value) => [
    GEMINI,
    {
      contents: [
        { role: 'user', parts: [{ text: 'x' }] },
        { role: 'model', parts: [{ text: 'x', thoughtSignature: Buffer.from(value).toString('base64') }] },
        { role: 'user', parts: [{ text: 'weigh' }] },
      ],
    },
  ],
];

/** Conversations that no vendor takes, and what of them the error names. */
const CUT: readonly (readonly [turns: object[], path: string])[] = [
  [[LAST, assistant(CALL)], 'messages.1.content.0'],
  [[LAST, assistant(CALL), LAST], 'messages.1.content.0'],
  [[user(RESULT)], 'messages.0.content.0'],
  [[LAST, assistant(CALL), user({ ...RESULT, tool_use_id: 'call_2' })], 'messages.1.content.0'],
  [[LAST, assistant(CALL, CALL), user(RESULT)], 'messages.1.content.1'],
  [[LAST, assistant(CALL), user(RESULT, { ...RESULT, content: '41' })], 'messages.2.content.1'],
];

/** Arguments that are no object, ids and names that no vendor takes. */
const ODD_CALLS: readonly (readonly [id: string, name: string, text: string])[] = [
  ['call_1', 'weigh', ''],
  ['call_1', 'weigh', '{'],
  ['call_1', 'weigh', '{"a":1,"a":2,"__proto__":{"x":1}}'],
  ['call_1', 'weigh', '[1,2]'],
  ['call_1', 'weigh', '"text"'],
  ['call_1', 'weigh', 'null'],
  ['call_1', 'weigh', '\u0000\ud800'],
  ['call_1', 'weigh', '['.repeat(20_000)],
  ['', 'weigh', '{}'],
  ['é'.repeat(5_000), 'weigh', '{}'],
  ['__proto__', 'constructor', '{}'],
  ['call_1', 'a b/ü'.repeat(40), '{}'],
];

/** Fields that try to break what names them: a header, a log line, a row. */
const ODD_FIELDS: Json = Object.fromEntries(
  ['a\r\nx-injected: 1', '\u0000', '\ud800', '日本', 'x'.repeat(5_000), 'constructor', 'toString'].map(
    (name) => [name, 1],
  ),
);

const isAnswered = ({ status }: Answer) => status === 200 || (status >= 400 && status < 500);

export const TRANSLATION: readonly HostileCase[] = [
  {
    row: "another principal's reasoning",
    title: 'in an envelope that was copied, changed or made up reaches no vendor, in any dialect',
    async run(scene) {
      const [alice, eve] = [await scene.tenant(), await scene.tenant()];
      const { sealed } = await sealedFor(alice);
      const values = [sealed, ...forgeries(sealed)];
      // Alice's own opens at the account that signed it.
      const [path, body] = TURNS[0]?.(sealed) ?? ['', {}];
      expect((await alice.ask(path, body)).status).toBe(200);
      const signature = sealed.slice(sealed.lastIndexOf('.') + 1);
      expect(sentBy(scene, alice).at(-1)).toContain(JSON.stringify(signature));
      for (const turn of TURNS) {
        for (const value of values) {
          const answer = await eve.ask(...turn(value));
          expect([answer.status, answer.text.slice(0, 300)]).toEqual([200, expect.anything()]);
        }
      }
      const sent = sentBy(scene, eve);
      expect(sent).toHaveLength(TURNS.length * values.length);
      for (const one of sent) expect(one).not.toMatch(/wb1\.|d2Ix/);
      expect(sent.filter((one) => one.includes(signature))).toEqual([]);
    },
  },
  {
    row: "another principal's response",
    title: 'that this service stores is as unknown as one that is not there',
    async run(scene) {
      const [alice, eve] = [await scene.tenant(), await scene.tenant()];
      // One that is stored here, and one that OpenAI stores.
      for (const model of ['anthropic/plain', 'openai/plain']) {
        const { id } = (await alice.ask('/v1/responses', { model, input: 'a secret' })).json;
        const unknown = String(id).replace(/.$/, (last) => (last === '0' ? '1' : '0'));
        for (const asked of ['anthropic/plain', 'gemini/plain', 'openai/plain']) {
          const next = (previous: unknown) => ({ model: asked, input: 'x', previous_response_id: previous });
          const answers = [
            await eve.ask('/v1/responses', next(id)),
            await eve.ask('/v1/responses', next(unknown)),
          ];
          const [others, nowhere] = answers.map(({ status, code }) => [model, asked, status, code]);
          expect(others).toEqual(nowhere);
          expect([400, 404]).toContain(others?.[2]);
          if (model === 'anthropic/plain') expect(others?.[2]).toBe(404);
          expect(answers[0]?.text).not.toContain('secret');
        }
        if (model === 'anthropic/plain') expect(sentBy(scene, eve)).toEqual([]);
      }
      for (const body of sentBy(scene, eve)) expect(body).not.toContain('secret');
    },
  },
  {
    row: 'a history that is cut in a tool call',
    title: 'is refused by naming each call, and costs nothing',
    async run(scene) {
      const tried = await scene.tenant();
      for (const model of ['openai/plain', 'gemini/plain', 'local/plain']) {
        for (const [turns, path] of CUT) {
          const { status, json } = await tried.ask('/v1/messages', messages(model, turns));
          const { fields } = json.error as { fields?: { path: string }[] };
          expect([status, fields?.map((field) => field.path)]).toEqual([400, expect.arrayContaining([path])]);
        }
      }
      expect(sentBy(scene, tried)).toEqual([]);
    },
  },
  {
    row: 'malformed calls in a history',
    title: 'are wrapped or refused, never a failure, and what is sent is charged exactly',
    async run(scene) {
      const tried = await scene.tenant();
      let served = 0;
      for (const [id, name, text] of ODD_CALLS) {
        const made = { id, type: 'function', function: { name, arguments: text } };
        const items = [
          { type: 'function_call', call_id: id, name, arguments: text },
          { type: 'function_call_output', call_id: id, output: '40' },
        ];
        for (const model of ['anthropic/plain', 'gemini/plain', 'local/plain']) {
          const answer = await tried.ask('/v1/responses', { model, input: [LAST, ...items] });
          expect([answer.status, isAnswered(answer), made]).toEqual([answer.status, true, made]);
          if (answer.status === 200) served += 1;
        }
      }
      expect(served).toBeGreaterThan(ODD_CALLS.length);
      for (const body of sentBy(scene, tried)) JSON.parse(body);
      await expectExact(tried, served);
    },
  },
  {
    row: 'names of fields',
    title: 'break neither the header that names them, nor the row, nor a log line',
    async run(scene) {
      const tried = await scene.tenant();
      const asked = messages('openai/plain', [{ ...LAST, ...ODD_FIELDS }], ODD_FIELDS);
      const answer = await tried.ask('/v1/messages', asked);
      expect(answer.status).toBe(200);
      expect(answer.headers.get('x-injected')).toBeNull();
      expect(answer.headers.get('x-svc-dropped')?.length).toBeLessThan(4_096);
      const [row] = await tried.rows(1);
      expect(JSON.stringify(row).length).toBeLessThan(16_384);
      expect(scene.product.output()).not.toMatch(/^x-injected/m);
      await expectExact(tried);
    },
  },
  {
    row: 'a hard budget',
    title: 'holds for translated requests, whatever the dialects',
    async run(scene) {
      const limit = 6_000;
      const tried = await scene.tenant(hard(limit));
      const script = { 'output-tokens': '4000' };
      for (let round = 0; round < 3; round++) {
        for (const model of ['openai/plain', 'gemini/plain', 'local/plain']) {
          await tried.ask('/v1/messages', messages(model, [LAST], { max_tokens: 300 }), { script });
        }
        await tried.ask(
          '/v1/responses',
          { model: 'anthropic/plain', input: 'weigh', max_output_tokens: 100 },
          { script },
        );
        await tried.ask(
          GEMINI,
          {
            contents: [{ role: 'user', parts: [{ text: 'x' }] }],
            generationConfig: { maxOutputTokens: 100 },
          },
          { script },
        );
      }
      expect(tried.billed()).toBeGreaterThan(0);
      expect(tried.billed()).toBeLessThanOrEqual(limit);
    },
  },
];
