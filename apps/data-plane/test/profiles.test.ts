import { createHash } from 'node:crypto';
import Anthropic from '@anthropic-ai/sdk';
import { Route, Strategy } from '@weighbridge/contracts';
import { emptyStratum, type Strata, seededRandom, workloadTypeKey } from '@weighbridge/domain';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type Fault, type FaultyVendor, startFaultyVendor } from './faultyVendor.ts';
import { post } from './post.ts';
import { ALICE, HARD, ONE_MODEL, SPENT, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

const CHAT = [Route.CHAT_COMPLETIONS, Route.RESPONSES];
/** Three vendors with one model each: the second is cheaper, the third speaks only the other dialect. */
const MODELS = [
  { id: 'acme/large', upstreamName: 'echo', nanoPerToken: 5_000n, score: 90, contextWindow: 200_000 },
  { id: 'bolt/small', upstreamName: 'echo', nanoPerToken: 1_000n, score: 60, capabilities: ['tools'] },
  { id: 'claude/fine', upstreamName: 'echo', nanoPerToken: 2_000n, score: 95 },
];
const TARGETS = MODELS.map(({ id }, at) => ({ model: id, weight: at + 1 }));

let vendors: MockVendor[];
let faulty: FaultyVendor[];
let proxy: TestProxy;
let closing: (() => Promise<unknown>)[];

beforeEach(async () => {
  vendors = await Promise.all([startMockVendor(), startMockVendor(), startMockVendor()]);
  faulty = await Promise.all(vendors.map(({ url }) => startFaultyVendor(url)));
  closing = [...faulty, ...vendors].map((one) => () => one.close());
});
afterEach(async () => {
  for (const close of closing) await close();
});

const profile = (name: string, strategy: Strategy = Strategy.ORDERED, fields: object = {}) => ({
  id: `prf_${name}`,
  name,
  strategy,
  targets: TARGETS,
  ...fields,
});

async function start(
  profiles: NonNullable<TestProxyOptions['profiles']>,
  options: Partial<TestProxyOptions> = {},
): Promise<void> {
  const at = (index: number) => ({ baseUrl: faulty[index]?.url ?? '' });
  proxy = await startProxy({
    vendorUrl: faulty[0]?.url ?? '',
    maxRetries: 2,
    models: MODELS,
    profiles,
    connectors: [
      { id: 'acme', provider: 'acme', routes: CHAT, ...at(0) },
      { id: 'bolt', provider: 'bolt', routes: CHAT, ...at(1) },
      { id: 'claude', provider: 'claude', routes: [Route.MESSAGES], ...at(2) },
    ],
    ...options,
  });
  closing.unshift(() => proxy.close());
}

const messages = [{ role: 'user' as const, content: 'Hello there' }];
const openai = (key = ALICE) => new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: key, maxRetries: 0 });
const anthropic = (key = ALICE) => new Anthropic({ baseURL: proxy.url, apiKey: key, maxRetries: 0 });

/** The response, and the model that served it. */
async function complete(model: string, headers: Record<string, string> = {}, key = ALICE) {
  const { data, response } = await openai(key)
    .chat.completions.create({ model, messages }, { headers })
    .withResponse();
  expect(data.choices[0]?.message.content).toContain('Hello');
  return { served: response.headers.get('x-svc-model'), headers: response.headers, data };
}

const servedBy = async (...request: Parameters<typeof complete>) => (await complete(...request)).served;

describe('each strategy, by the real SDK', () => {
  it('sends a request to the model that it ranks first', async () => {
    await start([
      profile('ordered'),
      profile('cheapest', Strategy.CHEAPEST),
      profile('best', Strategy.BEST_SCORE),
      profile('large', Strategy.CHEAPEST, { constraints: { contextWindow: 100_000n } }),
      profile('tools', Strategy.BEST_SCORE, { constraints: { capabilities: ['tools'] } }),
      profile('under', Strategy.BEST_SCORE, { constraints: { maxOutputNanoUsd: 4_999_999_999n } }),
    ]);
    expect(await servedBy('router/ordered')).toBe('acme/large');
    expect(await servedBy('router/cheapest')).toBe('bolt/small');
    // For the best model, the request is translated.
    expect(await servedBy('router/best')).toBe('claude/fine');
    expect(await servedBy('router/large')).toBe('acme/large');
    expect(await servedBy('router/tools')).toBe('bolt/small');
    expect(await servedBy('router/under')).toBe('claude/fine');
    expect(vendors.map(({ requests }) => requests.length)).toEqual([2, 2, 2]);
  });

  it('`weighted` distributes requests by weight', async () => {
    await start([profile('weighted', Strategy.WEIGHTED)], { random: seededRandom(3) });
    const served: (string | null)[] = [];
    for (let at = 0; at < 15; at++) {
      served.push(...(await Promise.all(Array.from({ length: 10 }, () => servedBy('router/weighted')))));
    }
    // The second one gets a third; 23 is four standard deviations.
    expect(Math.abs(served.filter((model) => model === 'bolt/small').length - 50)).toBeLessThan(24);
  });

  it("`fastest` and `adaptive` use the evidence for the request's workload type", async () => {
    const chat = workloadTypeKey({ text: 'chat', sha256: createHash('sha256').update('chat').digest() });
    const fast = { [chat]: 'bolt/small', '': 'acme/large' };
    const strata: Strata = (workloadType, model) =>
      workloadType in fast
        ? {
            ...emptyStratum(workloadType, model, 0),
            requests: 400,
            successes: fast[workloadType as keyof typeof fast] === model ? 400 : 20,
            timed: 100,
            timeToFirstTokenMs: 100 * (fast[workloadType as keyof typeof fast] === model ? 50 : 900),
          }
        : undefined;
    const profiles = [profile('fastest', Strategy.FASTEST), profile('adaptive', Strategy.ADAPTIVE)];
    await start(profiles, { strata, random: seededRandom(11) });
    for (let at = 0; at < 5; at++) {
      expect(await servedBy('router/fastest')).toBe('acme/large');
      expect(await servedBy('router/fastest', { 'x-svc-workload-type': 'chat' })).toBe('bolt/small');
    }
    const adaptive = async (headers = {}) => {
      const served = await Promise.all(
        Array.from({ length: 40 }, () => servedBy('router/adaptive', headers)),
      );
      return served.filter((model) => model === 'bolt/small').length;
    };
    expect(await adaptive()).toBeLessThan(10);
    expect(await adaptive({ 'x-svc-workload-type': 'chat' })).toBeGreaterThan(30);
  });

  it('sends a request in any dialect to the model that it ranks first', async () => {
    await start([profile('ordered')]);
    const message = await anthropic().messages.create({ model: 'router/ordered', max_tokens: 50, messages });
    expect(message.content).toMatchObject([{ type: 'text', text: 'Hello there' }]);
    expect(proxy.events).toMatchObject([{ model: 'acme/large', modelRequested: 'router/ordered' }]);
    const stream = await openai().chat.completions.create({
      model: 'router/ordered',
      messages,
      stream: true,
    });
    let text = '';
    for await (const chunk of stream) text += chunk.choices[0]?.delta.content ?? '';
    expect(text).toBe('Hello there');
    expect((await openai().responses.create({ model: 'router/ordered', input: 'Hello' })).output_text).toBe(
      'Hello',
    );
    expect(vendors.map(({ requests }) => requests.length)).toEqual([3, 0, 0]);
  });
});

it('a request that continues a stored response goes to the account that stores it', async () => {
  await start([profile('weighted', Strategy.WEIGHTED)], { random: seededRandom(9) });
  const model = 'router/weighted';
  for (let at = 0; at < 6; at++) {
    const first = await openai().responses.create({ model, input: 'Hello' });
    for (let turn = 0; turn < 3; turn++) {
      await openai().responses.create({ model, input: 'And then?', previous_response_id: first.id });
    }
    const served = proxy.events.slice(-4).map(({ connectorId }) => connectorId);
    expect(new Set(served).size).toBe(1);
  }
  expect(new Set(proxy.events.map(({ connectorId }) => connectorId))).toEqual(new Set(['acme', 'bolt']));
});

describe('where the first model fails', () => {
  it('the next one answers, at its own price', async () => {
    await start([profile('ordered')]);
    const failing = faulty[0] as FaultyVendor;
    failing.fault = () => ({ status: 500 });
    const { served, headers, data } = await complete('router/ordered');
    expect([served, headers.get('x-svc-attempts')]).toEqual(['bolt/small', '2']);
    const tokens = BigInt(data.usage?.total_tokens ?? 0);
    expect(tokens).toBeGreaterThan(0n);
    expect(headers.get('x-svc-cost-micro-usd')).toBe(String(tokens));
    expect(proxy.events).toMatchObject([
      {
        modelRequested: 'router/ordered',
        model: 'acme/large',
        connectorId: 'acme',
        attempt: 1,
        modelAttempt: 1,
        costNanoUsd: 0n,
        httpStatus: 500,
      },
      {
        modelRequested: 'router/ordered',
        model: 'bolt/small',
        connectorId: 'bolt',
        attempt: 2,
        modelAttempt: 1,
        costNanoUsd: tokens * 1_000n,
        httpStatus: 200,
      },
    ]);
    expect(proxy.failovers).toEqual(['acme: server_error']);
  });

  it('at a limit of its account: its other accounts are tried before the next model', async () => {
    const second = {
      id: 'acme-2',
      provider: 'acme',
      routes: CHAT,
      baseUrl: faulty[0]?.url ?? '',
      priority: 5,
    };
    await start([profile('ordered')], {
      connectors: [
        { id: 'acme', provider: 'acme', routes: CHAT, baseUrl: faulty[0]?.url ?? '' },
        second,
        { id: 'bolt', provider: 'bolt', routes: CHAT, baseUrl: faulty[1]?.url ?? '' },
      ],
    });
    (faulty[0] as FaultyVendor).fault = () => ({ status: 429 });
    expect((await complete('router/ordered')).served).toBe('bolt/small');
    expect(
      proxy.events.map(({ connectorId, attempt, modelAttempt }) => [connectorId, attempt, modelAttempt]),
    ).toEqual([
      ['acme', 1, 1],
      ['acme-2', 2, 2],
      ['bolt', 3, 1],
    ]);
  });
});

describe('where a budget has nothing left', () => {
  it('a free model of the profile still serves, and a request without one is refused', async () => {
    const free = { id: 'mock/free', upstreamName: 'echo', nanoPerToken: 0n };
    const targets = [...TARGETS, { model: 'mock/free' }];
    const mock = { id: 'mock', provider: 'mock', baseUrl: faulty[1]?.url ?? '' };
    await start([profile('ordered'), profile('with-free', Strategy.ORDERED, { targets })], {
      models: [...MODELS, free],
      connectors: [{ id: 'acme', provider: 'acme', routes: CHAT, baseUrl: faulty[0]?.url ?? '' }, mock],
    });
    const { served, headers } = await complete('router/with-free', {}, SPENT);
    expect([served, headers.get('x-svc-attempts')]).toEqual(['mock/free', '1']);
    await expect(complete('router/ordered', {}, SPENT)).rejects.toMatchObject({
      status: 429,
      code: 'budget_exhausted',
    });
    expect(proxy.events).toMatchObject([{ model: 'mock/free', attempt: 1, costNanoUsd: 0n }]);
    expect(faulty[0]?.requests).toEqual([]);
  });
});

describe('under a hard budget', () => {
  /** The output limit of the last request at a vendor. */
  const limitAt = (vendor: number) =>
    JSON.parse(String(vendors[vendor]?.requests.at(-1)?.body)).max_tokens as number;

  it("each model gets the output limit that the headroom affords at the model's price", async () => {
    // 4,000 tokens at the expensive model's price, 20,000 at the cheap one's.
    const room = () => {
      const grants = [20_000_000n];
      return { headroomNanoUsd: () => grants.shift() ?? 0n };
    };
    await start([profile('ordered')], room());
    expect(await servedBy('router/ordered', {}, HARD)).toBe('acme/large');
    expect(limitAt(0)).toBeGreaterThan(1_000);
    expect(limitAt(0)).toBeLessThan(4_000);

    await start([profile('ordered')], room());
    (faulty[0] as FaultyVendor).fault = () => ({ status: 503 });
    expect(await servedBy('router/ordered', {}, HARD)).toBe('bolt/small');
    expect(limitAt(1)).toBeGreaterThan(15_000);
    expect(limitAt(1)).toBeLessThan(20_000);
  });
});

it('a free model does not open a budget to the models that a request names beside it', async () => {
  const free = { id: 'acme/free', upstreamName: 'free', nanoPerToken: 0n };
  const large = { id: 'acme/large', upstreamName: 'echo', nanoPerToken: 5_000n };
  await start([profile('ordered')], { models: [free, large] });
  const ask = async (key: string, more: object) => {
    const body = { model: 'acme/free', messages, ...more };
    const answer = await post(proxy, '/v1/chat/completions', body, { authorization: `Bearer ${key}` });
    return answer.status;
  };
  for (const [key, status] of [
    [HARD, 400],
    [SPENT, 429],
  ] as const) {
    expect(await ask(key, { models: ['echo'] })).toBe(status);
    expect(await ask(key, { models: ['acme/large'] })).toBe(status);
  }
  expect(faulty[0]?.requests).toEqual([]);
  expect(await ask(SPENT, {})).not.toBe(429);
});

describe('a profile that cannot be served', () => {
  const refused = async (model: string, key = ALICE, route: 'chat' | 'embeddings' = 'chat') => {
    const call =
      route === 'chat'
        ? openai(key).chat.completions.create({ model, messages })
        : openai(key).embeddings.create({ model, input: 'x' });
    const error = await call.then(
      () => undefined,
      (reason: InstanceType<typeof OpenAI.APIError>) => reason,
    );
    return [error?.status, error?.code, error?.param];
  };

  it('is refused in the classes of the SDK, and nothing is sent', async () => {
    await start([
      profile('ordered'),
      profile('strict', Strategy.ORDERED, { constraints: { minScore: 99 } }),
      profile('gone', Strategy.ORDERED, { targets: [{ model: 'nobody/none' }] }),
    ]);
    expect(await refused('router/none')).toEqual([404, 'model_not_found', 'model']);
    expect(await refused('router/')).toEqual([400, 'invalid_model', 'model']);
    expect(await refused('router/gone')).toEqual([404, 'model_not_found', 'model']);
    expect(await refused('router/strict')).toEqual([404, 'model_not_found', 'model']);
    expect(await refused('router/ordered', ONE_MODEL)).toEqual([403, 'model_not_allowed', 'model']);
    expect(await refused('router/ordered', ALICE, 'embeddings')).toEqual([
      400,
      'route_not_supported',
      'model',
    ]);
    expect(faulty.flatMap(({ requests }) => requests)).toEqual([]);
    expect(proxy.events).toEqual([]);
  });

  it('is served by those of its models that the policy allows', async () => {
    const targets = [{ model: 'acme/large' }, { model: 'mock/echo' }];
    await start([profile('mixed', Strategy.ORDERED, { targets })], {
      connectors: [
        { id: 'acme', provider: 'acme', baseUrl: faulty[0]?.url ?? '' },
        { id: 'mock', provider: 'mock', baseUrl: faulty[1]?.url ?? '' },
      ],
    });
    expect(await servedBy('router/mixed')).toBe('acme/large');
    expect(await servedBy('router/mixed', {}, ONE_MODEL)).toBe('mock/echo');
    // A failover respects the policy too.
    (faulty[1] as FaultyVendor).fault = () => ({ status: 500 });
    await expect(complete('router/mixed', {}, ONE_MODEL)).rejects.toMatchObject({ status: 500 });
    expect(faulty[0]?.requests).toHaveLength(1);
  });
});

describe('while a vendor with two accounts is down', () => {
  const live = { id: 'bolt', provider: 'bolt', routes: CHAT };
  const models = [
    { id: 'acme/large', upstreamName: 'echo', nanoPerToken: 5_000n },
    { id: 'acme/medium', upstreamName: 'echo', nanoPerToken: 2_000n },
    { id: 'bolt/small', upstreamName: 'echo', nanoPerToken: 1_000n },
  ];

  it.each<Fault>([{ status: 500 }, { status: 529 }, 'reset', 'stall'])(
    'no request to a profile with a third, live target fails (%j)',
    async (fault) => {
      const targets = models.map(({ id }) => ({ model: id }));
      // The clock moves on between requests, so that the circuit breakers stay closed and the faults are met.
      let nowMs = 0;
      await start([profile('ordered', Strategy.ORDERED, { targets })], {
        models,
        nowMs: () => (nowMs += 60_000),
        connectors: [
          ...['acme-1', 'acme-2'].map((id, at) => ({
            id,
            ...{ provider: 'acme', routes: CHAT, firstByteTimeoutMs: 300, baseUrl: faulty[at]?.url ?? '' },
          })),
          { ...live, baseUrl: faulty[2]?.url ?? '' },
        ],
      });
      for (const vendor of faulty.slice(0, 2)) vendor.fault = () => fault;
      for (let at = 0; at < 5; at++) {
        const { served, headers } = await complete('router/ordered', { 'x-svc-session-id': `s${at % 2}` });
        expect(served).toBe('bolt/small');
        expect(headers.get('x-svc-attempts')).toBe('2');
      }
      const answers = await Promise.all(Array.from({ length: 20 }, () => servedBy('router/ordered')));
      expect(new Set(answers)).toEqual(new Set(['bolt/small']));
    },
  );
});

describe('the list of models', () => {
  it('has the profiles that the key can use, in both dialects', async () => {
    await start([
      profile('mixed', Strategy.ORDERED, { targets: [{ model: 'acme/large' }, { model: 'claude/fine' }] }),
      profile('default', Strategy.ORDERED, { targets: [{ model: 'bolt/small' }] }),
      profile('gone', Strategy.ORDERED, { targets: [{ model: 'nobody/none' }] }),
    ]);
    const all = (await openai().models.list()).data;
    expect(all.find(({ id }) => id === 'router/mixed')).toMatchObject({
      id: 'router/mixed',
      object: 'model',
      created: 0,
      owned_by: 'router',
    });
    const routers = (list: { id: string }[]) =>
      list.map(({ id }) => id).filter((id) => id.startsWith('router/'));
    expect(routers(all)).toEqual(['router/default', 'router/mixed']);
    expect(routers((await anthropic().models.list()).data)).toEqual(['router/default', 'router/mixed']);
    expect(await anthropic().models.retrieve('router/mixed')).toMatchObject({ display_name: 'router/mixed' });
    expect(await openai().models.retrieve('router/mixed')).toMatchObject({ id: 'router/mixed' });
    expect(routers((await openai(ONE_MODEL).models.list()).data)).toEqual([]);
    await expect(openai(ONE_MODEL).models.retrieve('router/mixed')).rejects.toThrow(OpenAI.NotFoundError);
    await expect(openai().models.retrieve('router/gone')).rejects.toThrow(OpenAI.NotFoundError);
    expect(await servedBy('router/default')).toBe('bolt/small');
  });
});
