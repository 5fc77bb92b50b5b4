import { expect } from 'vitest';
import { type HostileCase, message, responses } from './hostileCase.ts';
import { type OddReply, startOddVendor } from './oddVendor.ts';
import type { Scene, Tenant } from './scene.ts';
import { received } from './walls.cases.ts';

/** A tenant can't name what another one's responses showed, whatever its type, and whatever else the request has of it. */

type Json = Record<string, unknown>;

const TYPES = [
  ...['message', 'reasoning', 'compaction', 'function_call', 'custom_tool_call', 'image_generation_call'],
  ...['web_search_call', 'file_search_call', 'code_interpreter_call', 'computer_call', 'mcp_call'],
  ...['mcp_list_tools', 'mcp_approval_request', 'local_shell_call', 'shell_call', 'apply_patch_call'],
  // Of no release that this one knows.
  ...['tool_search_call', 'hologram_call'],
] as const;
/** What an item of any type may have of its content. */
const CONTENT = {
  role: 'assistant',
  content: [{ type: 'output_text', text: 'x', annotations: [] }],
  ...{ encrypted_content: 'x', result: 'AAAA', results: [{ text: 'x' }], outputs: [{ type: 'logs' }] },
  ...{ name: 'f', arguments: '{}', call_id: 'call_1', input: 'x', action: { type: 'search' }, output: 'x' },
  ...{ tools: [{ name: 'f' }], operation: { type: 'x' }, summary: [{ type: 'summary_text', text: 'x' }] },
};
const ROUTES = ['/v1/responses', '/v1/responses/input_tokens', '/v1/responses/compact'] as const;
const OWN = { foreign_objects: 'own' };

let shown = 0;
const newId = (type: string) => `${type.slice(0, 3)}_shown_${++shown}`;
const usage = { input_tokens: 1, output_tokens: 1, total_tokens: 2 };
const json = (body: object): OddReply => ({ type: 'application/json', pieces: [JSON.stringify(body)] });
const events = (list: readonly object[]): OddReply => ({
  type: 'text/event-stream',
  pieces: list.map((event) => `data: ${JSON.stringify(event)}\n\n`),
});

function responseOf(output: readonly object[]): Json {
  return { id: newId('resp'), object: 'response', status: 'completed', output, usage };
}

/** Shows items to a tenant, in a document or a stream; fields say whether the vendor is to store them. */
async function show(scene: Scene, tenant: Tenant, items: readonly Json[], fields: object = {}) {
  const odd = await startOddVendor(scene, 'responses');
  try {
    const response = responseOf(items);
    const isStream = 'stream' in fields;
    odd.reply = isStream
      ? events([
          { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
          // Some vendors name an item in what follows it alone.
          ...items.map(({ id }) => ({ type: 'response.output_text.delta', item_id: id, delta: 'x' })),
          { type: 'response.completed', response: { ...response, output: [] } },
        ])
      : json(response);
    const { status } = await tenant.ask('/v1/responses', responses({ model: odd.model, ...fields }));
    expect(status).toBe(200);
  } finally {
    await odd.close();
  }
}

type Ask = readonly [path: string, body: unknown];

/** Expects the one 404, and nothing sent or spent. */
async function expectRefused(scene: Scene, tenant: Tenant, asks: readonly Ask[]) {
  const passed: string[] = [];
  for (const [path, body] of asks) {
    const { status, code } = await tenant.ask(path, body);
    if (status !== 404 || !/not_found/.test(code)) passed.push(`${status} ${path} ${JSON.stringify(body)}`);
  }
  expect(passed).toEqual([]);
  expect(received(scene, tenant)).toEqual([]);
  expect(tenant.entries()).toEqual([]);
}

const item = (type: string, id: unknown, content: object = {}): Json => ({ ...content, type, id });

export const ITEMS: readonly HostileCase[] = [
  {
    row: "another principal's item",
    title: 'is one 404 by the id of any type, alone or with its content, on every route',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      for (const fields of [{}, { stream: true }]) {
        const items = TYPES.map((type) => item(type, newId(type)));
        await show(scene, mine, items, fields);
        await expectRefused(
          scene,
          other,
          items.flatMap(({ type, id }) =>
            [{}, CONTENT].flatMap((content): Ask[] => [
              ...ROUTES.map((path): Ask => [path, responses({ input: [item(String(type), id, content)] })]),
              ['/v1/responses', responses({ stream: true, input: [item(String(type), id, content)] })],
              ['/v1/responses', responses({ instructions: [item(String(type), id, content)] })],
              // As another type, as a reference, in another case.
              ['/v1/responses', responses({ input: [{ type: 'message', ...content, ID: id }] })],
              ['/v1/responses', responses({ input: [{ ...content, id }] })],
            ]),
          ),
        );
      }
    },
  },
  {
    row: "another principal's item",
    title: 'is one 404 for who approves a call by it',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const id = newId('mcpr');
      await show(scene, mine, [item('mcp_approval_request', id)]);
      const approval = { type: 'mcp_approval_response', approval_request_id: id, approve: true };
      const call = { type: 'mcp_call', approval_request_id: id, name: 'f', arguments: '{}', output: 'x' };
      await expectRefused(scene, other, [
        ['/v1/responses', responses({ input: [approval] })],
        ['/v1/responses', responses({ input: [call] })],
        ['/v1/responses', responses({ input: [item('mcp_approval_request', id, CONTENT), approval] })],
      ]);
    },
  },
  {
    row: "an item that another principal's vendor account has",
    title: 'is one 404 for who may use own objects only, unless it is there as a whole',
    async run(scene) {
      const strict = await scene.tenant(OWN);
      const asks = TYPES.map(
        (type): Ask => ['/v1/responses', responses({ input: [item(type, newId(type))] })],
      );
      const search = { action: { type: 'search', query: 'x' }, status: 'completed' };
      await expectRefused(scene, strict, [
        ...asks,
        ['/v1/responses', responses({ input: [item('web_search_call', 'ws_outside', search)] })],
        ['/v1/responses', responses({ input: [item('reasoning', 'rs_x', { encrypted_content: '' })] })],
        [
          '/v1/responses',
          `{"model":"openai/plain","input":[{"type":"reasoning","id":"rs_x","encrypted_content":"x","encrypted_content":null}]}`,
        ],
        [
          '/v1/responses',
          responses({ input: [item('message', 'msg_x', { role: 'assistant', content: [] })] }),
        ],
      ]);
      const whole = { role: 'assistant', content: [{ type: 'output_text', text: 'x' }] };
      const { status } = await strict.ask(
        '/v1/responses',
        responses({ input: [item('message', 'msg_x', whole)] }),
      );
      expect(status).toBe(200);
    },
  },
  {
    row: 'an item of a response that is not stored',
    title: 'goes from one principal to another with its content, and without it to no one',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const said = [{ type: 'output_text', text: 'x' }];
      const answer = item('message', newId('msg'), { role: 'assistant', content: said });
      await show(scene, mine, [answer], { store: false });
      const reference = { type: 'item_reference', id: answer.id };
      await expectRefused(scene, other, [
        ['/v1/responses', responses({ input: [reference] })],
        ['/v1/responses', responses({ input: [answer, reference] })],
      ]);
      for (const tenant of [mine, other]) {
        const { status } = await tenant.ask('/v1/responses', responses({ store: false, input: [answer] }));
        expect(status).toBe(200);
      }
    },
  },
  {
    row: "another principal's message",
    title: 'is one 404 for who asks why its prompt was not cached',
    async run(scene) {
      const [mine, other, strict] = [await scene.tenant(), await scene.tenant(), await scene.tenant(OWN)];
      const asked = message({ diagnostics: { previous_message_id: null } });
      const { json: made } = await mine.ask('/v1/messages', asked);
      const { text } = await mine.ask('/v1/messages', { ...asked, stream: true });
      const streamed = /"id":"(msg_[^"]+)"/.exec(text)?.[1];
      const naming = (id: unknown): Ask => [
        '/v1/messages',
        message({ diagnostics: { previous_message_id: id } }),
      ];
      await expectRefused(scene, other, [naming(made.id), naming(streamed)]);
      await expectRefused(scene, strict, [naming(made.id), naming('msg_outside')]);
    },
  },
  {
    row: "another principal's file",
    title: 'that a tool of the vendor made is one 404 in a response and a message',
    async run(scene) {
      const [mine, other] = [await scene.tenant(), await scene.tenant()];
      const [file, container, made] = [newId('cfile'), newId('cntr'), newId('file')];
      const cited = { type: 'container_file_citation', container_id: container, file_id: file };
      const content = [{ type: 'output_text', text: 'x', annotations: [cited] }];
      await show(scene, mine, [item('message', newId('msg'), { role: 'assistant', content })]);
      const odd = await startOddVendor(scene, 'messages');
      const output = [{ type: 'code_execution_output', file_id: made }];
      const result = {
        type: 'code_execution_result',
        content: output,
        return_code: 0,
        stdout: '',
        stderr: '',
      };
      const block = { type: 'code_execution_tool_result', tool_use_id: 'srvtoolu_1', content: result };
      odd.reply = json({ id: 'msg_1', type: 'message', role: 'assistant', content: [block], usage });
      expect((await mine.ask('/v1/messages', message({ model: odd.model }))).status).toBe(200);
      await odd.close();
      const part = (fields: object) => responses({ input: [{ role: 'user', content: [fields] }] });
      const tools = [{ type: 'code_interpreter', container }];
      const upload = [{ role: 'user', content: [{ type: 'container_upload', file_id: made }] }];
      await expectRefused(scene, other, [
        ['/v1/responses', part({ type: 'input_file', file_id: file })],
        ['/v1/responses', part({ type: 'output_text', text: 'x', annotations: [cited] })],
        ['/v1/responses', responses({ tools })],
        ['/v1/messages', message({ messages: upload })],
        ['/v1/messages', message({ messages: [{ role: 'assistant', content: [block] }] })],
      ]);
    },
  },
];
