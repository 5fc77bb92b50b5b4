import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ALICE, BOB, OWN_ONLY, startProxy, type TestProxy } from './proxy.ts';

type Input = OpenAI.Responses.ResponseInputItem[];

let vendor: MockVendor;
let proxy: TestProxy;
beforeAll(async () => {
  // It refuses conversations that no client has.
  vendor = await startMockVendor({ traits: { strict: true, checksHistory: true } });
  proxy = await startProxy({ vendorUrl: vendor.url, connectors: [{}, { id: 'con_other', priority: 9 }] });
});
beforeEach(() => {
  vendor.clear();
  proxy.recorded.length = 0;
});
afterAll(async () => {
  await proxy?.close();
  await vendor?.close();
});

const client = (apiKey: string) => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey, maxRetries: 0 });
const TOOL = {
  type: 'function' as const,
  name: 'weigh',
  strict: true,
  parameters: { type: 'object', properties: {}, additionalProperties: false },
};
const THINKS = { 'x-mock-reasoning-tokens': '5' };

interface Ways {
  readonly store: boolean;
  readonly stream: boolean;
}
const WAYS: readonly Ways[] = [true, false].flatMap((store) =>
  [true, false].map((stream) => ({ store, stream })),
);

/** One turn, as the Agents SDK and Codex have it: all items of before, with their ids, are sent again. */
async function turn(key: string, input: Input, { store, stream }: Ways, fields: object = {}) {
  const body = {
    model: 'mock/echo',
    input,
    store,
    tools: [TOOL],
    include: store ? [] : (['reasoning.encrypted_content'] as OpenAI.Responses.ResponseIncludable[]),
    ...fields,
  };
  const { responses } = client(key);
  if (!stream) return await responses.create(body, { headers: THINKS });
  return await responses.stream(body, { headers: THINKS }).finalResponse();
}

/** Without what the SDK's helpers add. */
const sentBack = (output: readonly OpenAI.Responses.ResponseOutputItem[]): Input =>
  JSON.parse(JSON.stringify(output, (name, value) => (/^parsed/.test(name) ? undefined : value)));

describe.each(WAYS)('a conversation with %o', (ways) => {
  it.each([ALICE, OWN_ONLY])('goes on with the ids of all its items', async (key) => {
    const input: Input = [{ role: 'user', content: 'weigh' }];
    for (const choice of ['required', 'none', 'none']) {
      const { output } = await turn(key, input, ways, { tool_choice: choice });
      expect(output.map(({ type }) => type)[0]).toBe('reasoning');
      input.push(...sentBack(output));
      for (const item of output) {
        if (item.type !== 'function_call') continue;
        input.push({ type: 'function_call_output', call_id: item.call_id, output: '' });
      }
    }
    expect(input.filter((item) => 'id' in item && item.id).length).toBeGreaterThanOrEqual(6);
    // One write for each response, or two if its items came in a later turn of the event loop.
    expect(proxy.recorded.length).toBeGreaterThanOrEqual(3);
    expect(proxy.recorded.length).toBeLessThanOrEqual(ways.stream ? 12 : 3);
  });

  it('goes on under another principal only if nothing of it is stored', async () => {
    const input: Input = [{ role: 'user', content: 'weigh' }];
    const { output } = await turn(ALICE, input, ways, { tool_choice: 'none' });
    input.push(...sentBack(output), { role: 'user', content: 'again' });
    const before = vendor.requests.length;
    const other = turn(BOB, input, ways).then(({ status }) => status);
    if (ways.store) {
      await expect(other).rejects.toMatchObject({
        status: 404,
        code: 'object_not_found',
        param: 'input[1].id',
      });
      expect(vendor.requests).toHaveLength(before);
    } else expect(await other).toBe('completed');
  });
});

describe('items with their content', () => {
  const said = (id: string): Input => [
    { role: 'user', content: 'weigh' },
    {
      type: 'message',
      id,
      role: 'assistant',
      status: 'completed',
      content: [{ type: 'output_text', text: 'x', annotations: [] }],
    },
  ];

  it('are of any account, and pin the request to none', async () => {
    for (const connectorId of ['con_0', 'con_other']) {
      proxy.recorded.push({
        responseId: `resp_${connectorId}`,
        objectIds: [`msg_${connectorId}`],
        areLasting: false,
        containerGb: 0,
        connectorId,
        key: { principalId: 'alice' } as TestProxy['recorded'][number]['key'],
        unfinished: undefined,
      });
    }
    const input = [...said('msg_con_0'), ...said('msg_con_other')];
    expect((await turn(ALICE, input, { store: true, stream: false })).status).toBe('completed');
  });

  it('of an unknown id leave the errors of a vendor as they are', async () => {
    const asked = turn(BOB, said('msg_unknown'), { store: true, stream: false }, { nonsense: 1 });
    await expect(asked).rejects.toMatchObject({ status: 400, message: expect.stringContaining('nonsense') });
  });

  it('may have ids that no vendor issues', async () => {
    const input = said('msg_é x');
    expect((await turn(OWN_ONLY, input, { store: false, stream: false })).status).toBe('completed');
  });
});
