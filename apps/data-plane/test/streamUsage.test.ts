import { Mistral } from '@mistralai/mistralai';
import { type MockVendor, type MockVendorOptions, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterEach, describe, expect, it } from 'vitest';
import { ALICE, settled, startProxy, type TestProxy } from './proxy.ts';

const closing: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const one of closing.splice(0).reverse()) await one.close();
});

interface World {
  readonly vendor: MockVendor;
  readonly proxy: TestProxy;
}

async function open(provider: string, traits: MockVendorOptions['traits'] = {}): Promise<World> {
  const vendor = await startMockVendor({ traits: { strict: true, ...traits } });
  closing.push(vendor);
  const connectors = [{ provider }];
  const models = [{ id: `${provider}/echo`, nanoPerToken: 1_000n }];
  const proxy = await startProxy({ vendorUrl: vendor.url, connectors, models });
  closing.push(proxy);
  return { vendor, proxy };
}

const messages = [{ role: 'user' as const, content: 'weigh this' }];

/** What was recorded equals what the vendor billed; nothing was counted here. */
function expectExact({ vendor, proxy }: World): void {
  const [bill] = vendor.bill;
  expect(settled(proxy.events)).toMatchObject([
    { estimated: false, usage: { input: bill?.inputTokens, output: bill?.outputTokens } },
  ]);
}

function sentOptions({ vendor }: World): unknown {
  return JSON.parse(vendor.requests[0]?.body.toString() ?? '{}').stream_options;
}

async function streamByOpenAi({ proxy }: World, model: string): Promise<OpenAI.ChatCompletionChunk[]> {
  const openai = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: ALICE, maxRetries: 0 });
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of await openai.chat.completions.create({ model, messages, stream: true })) {
    chunks.push(chunk);
  }
  return chunks;
}

describe('a stream of chat completions', () => {
  it("of a vendor that refuses stream_options reaches Mistral's SDK, with the usage that it reports", async () => {
    const world = await open('mistral', { streamUsage: 'last_chunk', refusesStreamOptions: true });
    const mistral = new Mistral({ serverURL: world.proxy.url, apiKey: ALICE });
    const stream = await mistral.chat.stream({ model: 'mistral/echo', messages });
    let text = '';
    let usage: { totalTokens?: number | undefined } | undefined;
    for await (const { data } of stream) {
      text += String(data.choices[0]?.delta.content ?? '');
      usage = data.usage ?? usage;
    }
    expect(text).toBe('weigh this');
    const [bill] = world.vendor.bill;
    expect(usage?.totalTokens).toBe((bill?.inputTokens ?? 0) + (bill?.outputTokens ?? 0));
    expect(sentOptions(world)).toBeUndefined();
    expectExact(world);
  });

  it.each([
    ['cohere', { streamUsage: 'last_chunk', refusesStreamOptions: true }],
    ['groq', { streamUsage: 'x_groq' }],
    ['deepseek', { streamUsage: 'last_chunk' }],
    ['together', { streamUsage: 'last_chunk' }],
  ] as const)('of %s is exact without being asked for usage', async (provider, traits) => {
    const world = await open(provider, traits);
    await streamByOpenAi(world, `${provider}/echo`);
    expect(sentOptions(world)).toBeUndefined();
    expectExact(world);
  });

  it.each(['openai', 'azure', 'gemini', 'xai', 'anthropic', 'some-other'])(
    'of %s is asked for its usage, which the client does not see',
    async (provider) => {
      const world = await open(provider);
      const chunks = await streamByOpenAi(world, `${provider}/echo`);
      expect(sentOptions(world)).toEqual({ include_usage: true });
      expect(chunks.some((chunk) => 'usage' in chunk)).toBe(false);
      expectExact(world);
    },
  );
});
