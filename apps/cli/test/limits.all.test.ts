import { connect } from '@nats-io/transport-node';
import { natsAddress } from '@weighbridge/bus';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';
import { manage } from './mainJob.ts';

let cluster: Cluster;
beforeAll(async () => {
  cluster = await startCluster({ proxies: 3 });
});
afterAll(() => cluster?.close());

async function callerUnder(name: string, policy: Record<string, unknown>): Promise<Caller> {
  const created = await manage(cluster, 'POST', '/api/v1/policies', { body: { name, ...policy } });
  if (created.status !== 201) throw new Error(JSON.stringify(created.body));
  return await cluster.caller(name, { policy_id: created.body.id });
}

interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: {
    readonly error?: { readonly code: string; readonly message: string; readonly param?: string };
    readonly usage?: { readonly total_tokens: number };
  };
}

async function ask(
  caller: Caller,
  body: Record<string, unknown> = {},
  { proxy = 0, path = '/v1/chat/completions', headers = {} as Record<string, string> } = {},
): Promise<Answer> {
  const response = await fetch(`${cluster.proxies[proxy]?.url}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${caller.key}`, 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'weigh' }], ...body }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text.startsWith('{') ? JSON.parse(text) : {},
  };
}

const AT_ONCE = 6;
const RATE = 60;
const SHARE = RATE / (4 * 3);

describe('limits per minute, over three proxies', () => {
  it('admit no more requests than the limit and a slice, and report it in both vendors’ headers', async () => {
    const caller = await callerUnder('rpm', { requests_per_minute: RATE, counter_scope: 'policy' });
    // The proxies must first know of each other, so that each takes only its share.
    await eventually(async () => {
      const { body } = await manage(cluster, 'GET', '/api/v1/proxies');
      expect((body.data as unknown[]).length).toBe(3);
    });
    const answers: Answer[] = [];
    const [from, worker] = [
      Date.now(),
      async (proxy: number) => {
        while (answers.length < 3 * RATE) answers.push(await ask(caller, {}, { proxy }));
      },
    ];
    await Promise.all(Array.from({ length: AT_ONCE }, (_, at) => worker(at % 3)));
    const passed = answers.filter(({ status }) => status === 200);
    // One minute of the counter may end meanwhile.
    const minutes = Date.now() - from > 60_000 ? 3 : 2;
    expect(passed.length).toBeGreaterThanOrEqual(RATE - 3 * SHARE);
    expect(passed.length).toBeLessThanOrEqual(minutes * (RATE + SHARE));
    const refused = answers.find(({ status }) => status === 429);
    expect(refused?.body.error?.code).toBe('rate_limit_exceeded');
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(Number(refused?.headers.get('retry-after'))).toBeLessThanOrEqual(60);
    expect(refused?.headers.get('x-should-retry')).toBe('true');
    for (const { headers } of [passed[0], refused] as Answer[]) {
      expect(headers.get('x-ratelimit-limit-requests')).toBe(String(RATE));
      expect(headers.get('anthropic-ratelimit-requests-limit')).toBe(String(RATE));
      expect(headers.get('x-ratelimit-reset-requests')).toMatch(/^\d+s$/);
      expect(Date.parse(headers.get('anthropic-ratelimit-requests-reset') ?? '')).toBeGreaterThan(0);
    }
    expect(refused?.headers.get('x-ratelimit-remaining-requests')).toBe('0');
    const unknown = await ask(caller, { model: 'mock/unknown' });
    expect([unknown.status, unknown.headers.get('x-ratelimit-limit-requests')]).toEqual([404, String(RATE)]);
  });

  it('count tokens, and refuse for good a request that can never be admitted', async () => {
    const caller = await callerUnder('tpm', { tokens_per_minute: 2_000, counter_scope: 'policy' });
    const answer = await ask(caller, { max_tokens: 100 });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('x-ratelimit-limit-tokens')).toBe('2000');
    const tooLarge = await ask(caller, { messages: [{ role: 'user', content: 'weigh '.repeat(2_000) }] });
    expect([tooLarge.status, tooLarge.headers.get('x-should-retry')]).toEqual([429, 'false']);
  });

  it('admit as many parallel requests as the policy allows', async () => {
    const caller = await callerUnder('parallel', { max_parallel: 3, counter_scope: 'policy' });
    const slow = { headers: { 'x-mock-delay-ms': '1500' } };
    // On a busy machine a proxy may briefly see fewer live proxies, and take a larger share.
    await eventually(async () => {
      const answers = await Promise.all(Array.from({ length: 3 }, () => ask(caller, {}, slow)));
      expect(answers.map(({ status }) => status).sort()).toEqual([200, 429, 429]);
    });
    expect((await ask(caller)).status).toBe(200);
  });
});

describe('further limits, over three proxies', () => {
  const ON_FIRST_USE = { every: '5h', from: 'first_use' };
  const KINDS: Record<
    string,
    { limit_requests?: number; limit_tokens?: number; limit_micro_usd?: number; window?: object }
  > = {
    requests: { limit_requests: 7 },
    tokens: { limit_tokens: 5_000 },
    'requests of a window on first use': { limit_requests: 7, window: ON_FIRST_USE },
    'tokens of a window on first use': { limit_tokens: 5_000, window: ON_FIRST_USE },
    'money of a window on first use': { limit_micro_usd: 10_000, window: ON_FIRST_USE },
  };
  // An output limit that the vendor honours; or none, and answers that are longer than the usual length that is reserved.
  const WAYS = {
    hard: { body: { max_tokens: 300 }, outputTokens: 300, overage: 0 },
    balanced: { body: {}, outputTokens: 2_000, overage: 2_000 - 1_024 },
  } as const;

  it.each(Object.keys(KINDS).flatMap((kind) => [[kind, 'hard'] as const, [kind, 'balanced'] as const]))(
    '64 first requests of an unseen customer pass no more %s than the bound says, in %s mode',
    async (kind, budget_mode) => {
      const { body, outputTokens, overage } = WAYS[budget_mode];
      const limit = { name: 'each user', counter_scope: 'user', ...KINDS[kind] };
      const policy = {
        budget_mode,
        limit_micro_usd: 1_000_000_000,
        counter_scope: 'policy',
        limits: [limit],
      };
      const caller = await callerUnder(`${kind} ${budget_mode}`, policy);
      const headers = { 'x-svc-user': 'ann', 'x-mock-output-tokens': String(outputTokens) };
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, at) => ask(caller, body, { proxy: at % 3, headers })),
      );
      const passed = answers.filter(({ status }) => status === 200);
      const tokens = passed.reduce((sum, answer) => sum + (answer.body.usage?.total_tokens ?? 0), 0);
      expect(passed.length).toBeGreaterThan(0);
      const { limit_requests = 64, limit_tokens = Number.POSITIVE_INFINITY } = KINDS[kind] ?? {};
      expect(passed.length).toBeLessThanOrEqual(limit_requests);
      expect(tokens).toBeLessThanOrEqual(limit_tokens + passed.length * overage);
      // At 2 micro-USD a token of output, and 1 for one of input.
      if (limit.limit_micro_usd) expect(tokens).toBeLessThanOrEqual(10_000 + passed.length * 2 * overage);
      const refused = new Set(answers.map((answer) => answer.body.error?.code));
      for (const code of refused) {
        expect([
          ...[undefined, 'budget_contended'],
          ...['budget_exhausted', 'request_limit_exhausted', 'token_limit_exhausted'],
        ]).toContain(code);
      }
      expect((await ask(caller, body, { headers: { ...headers, 'x-svc-user': 'bob' } })).status).toBe(200);
    },
  );
});

describe('rates of further limits, over three proxies', () => {
  it('admit no more requests of each customer than the limit, and name the limit and the customer', async () => {
    const each = { name: 'each user', counter_scope: 'user', requests_per_minute: 24 };
    const caller = await callerUnder('rpm of users', { counter_scope: 'policy', limits: [each] });
    const from = Date.now();
    const users = ['ann', 'bob'];
    const answers = await Promise.all(
      users.flatMap((user) =>
        Array.from({ length: 60 }, (_, at) =>
          ask(caller, {}, { proxy: at % 3, headers: { 'x-svc-user': user } }),
        ),
      ),
    );
    // A minute of a counter may end meanwhile.
    const minutes = 1 + Math.ceil((Date.now() - from) / 60_000);
    for (const [at, user] of users.entries()) {
      const ofUser = answers.slice(at * 60, (at + 1) * 60);
      const passed = ofUser.filter(({ status }) => status === 200).length;
      expect(passed).toBeGreaterThanOrEqual(24 - 3 * 2);
      expect(passed).toBeLessThanOrEqual(minutes * 24);
      const refused = ofUser.find(({ status }) => status === 429);
      expect(refused?.body.error).toMatchObject({
        ...{ code: 'rate_limit_exceeded', limit: 'each user', counter_scope: 'user', value: user },
      });
      expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    }
  });
});

describe('a hard budget', () => {
  it('limits the length of a response without a limit, and refuses requests of unforeseeable cost', async () => {
    const caller = await callerUnder('hard', {
      limit_micro_usd: 3_000,
      window: 'month',
      counter_scope: 'policy',
      budget_mode: 'hard',
    });
    const answer = await ask(caller, {}, { headers: { 'x-client-request-id': 'hard' } });
    expect(answer.status).toBe(200);
    const sent = cluster.vendor.requests.find(({ headers }) => headers['x-client-request-id'] === 'hard');
    const { max_tokens } = JSON.parse(String(sent?.body)) as { max_tokens: number };
    // No more than the budget covers, at 2 micro-USD a token.
    expect(max_tokens).toBeGreaterThan(100);
    expect(max_tokens).toBeLessThan(1_500);
    for (const hidden of [
      { unknown_field: true },
      { MAX_TOKENS: 100_000 },
      { models: ['mock/echo'] },
      {
        messages: [
          { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://x.example/y.png' } }] },
        ],
      },
    ]) {
      expect((await ask(caller, hidden)).body.error?.code).toBe('not_allowed_in_hard_mode');
    }
    expect((await ask(caller, { max_tokens: 100_000 })).body.error?.code).toBe('budget_exhausted');
  });

  it('removes tools that nothing bounds, and says so', async () => {
    const caller = await callerUnder('tools', {
      limit_micro_usd: 30_000,
      window: 'month',
      counter_scope: 'policy',
      budget_mode: 'hard',
    });
    const tools = { tools: [{ type: 'web_search' }], tool_choice: 'auto', max_completion_tokens: 5 };
    const answer = await ask(caller, tools, { headers: { 'x-client-request-id': 'tools' } });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('x-svc-dropped')).toBe('tools[0] web_search');
    const sent = cluster.vendor.requests.find(({ headers }) => headers['x-client-request-id'] === 'tools');
    const body = JSON.parse(String(sent?.body)) as Record<string, unknown>;
    expect(body).toMatchObject({ max_tokens: 5 });
    expect(Object.keys(body)).not.toEqual(
      expect.arrayContaining([expect.stringMatching(/tool|max_completion_tokens/)]),
    );
  });
});

describe('a hard budget whose policy allows a field', () => {
  it('lets that field pass, and no other', async () => {
    const caller = await callerUnder('allowed', {
      limit_micro_usd: 30_000,
      window: 'month',
      counter_scope: 'policy',
      budget_mode: 'hard',
      hard_allow_fields: ['messages[].content[].type=image_url'],
    });
    const part = (type: string) => ({
      max_tokens: 5,
      messages: [{ role: 'user', content: [{ type, [type]: { url: 'https://x.example/y' } }] }],
    });
    expect((await ask(caller, part('image_url'))).status).toBe(200);
    expect((await ask(caller, part('video_url'))).body.error).toMatchObject({
      code: 'not_allowed_in_hard_mode',
      param: 'messages[0].content[0].type',
    });
  });
});

describe('a policy that allows certain models', () => {
  it('holds for each model that a request names', async () => {
    const caller = await callerUnder('models', {
      limit_micro_usd: 30_000,
      window: 'month',
      allowed_models: ['mock/echo'],
    });
    expect((await ask(caller, { models: ['echo', 'mock/echo'], metadata: { model: 'x' } })).status).toBe(200);
    expect((await ask(caller, { models: ['echo', 'dear'] })).body.error).toMatchObject({
      code: 'model_not_allowed',
      param: 'models[1]',
    });
    const tools = [{ type: 'image_generation', model: 'dear' }];
    expect((await ask(caller, { tools })).body.error?.param).toBe('tools[0].model');
  });
});

describe('a policy in shadow mode', () => {
  it('refuses nothing, and counts would-be refusals', async () => {
    const caller = await callerUnder('shadow', {
      limit_micro_usd: 1,
      window: 'month',
      counter_scope: 'policy',
      enforcement: 'shadow',
    });
    for (let request = 0; request < 5; request++) expect((await ask(caller)).status).toBe(200);
    await eventually(async () => {
      expect((await ask(caller)).status).toBe(200);
      const metrics = await (await fetch(`${cluster.proxies[0]?.metricsUrl}/metrics`)).text();
      expect(metrics).toMatch(/weighbridge_shadow_refusals_total\{.*limit="budget".*\} [1-9]/);
    });
  });
});

describe('thresholds', () => {
  it('are reported once per window: on the bus, in the audit log, and in the usage report', async () => {
    const caller = await callerUnder('thresholds', {
      limit_micro_usd: 1_000,
      window: 'month',
      counter_scope: 'policy',
      enforcement: 'shadow',
      thresholds: [50, 90],
    });
    const listener = await connect(natsAddress(cluster.nats.url));
    const heard: Record<string, unknown>[] = [];
    const events = listener.subscribe('events.v1.budget_threshold');
    void (async () => {
      for await (const event of events) heard.push(event.json());
    })();
    await listener.flush();
    const big = { headers: { 'x-mock-output-tokens': '300' } };
    await ask(caller, {}, big);
    await eventually(() => expect(heard.map(({ percent }) => percent)).toEqual([50]));
    await ask(caller, {}, big);
    await ask(caller, {}, big);
    await eventually(() => expect(heard.map(({ percent }) => percent)).toEqual([50, 90]));
    await cluster.settled();
    await listener.close();
    const key = await manage(cluster, 'GET', `/api/v1/keys/${caller.keyId}`);
    expect(heard).toMatchObject([
      { policy_id: key.body.policy_id, limit_micro_usd: 1_000, percent: 50 },
      { policy_id: key.body.policy_id, limit_micro_usd: 1_000, percent: 90 },
    ]);
    const audit = await manage(cluster, 'GET', `/api/v1/audit?resource_id=${key.body.policy_id}`);
    const actions = (audit.body.data as { action: string }[]).map(({ action }) => action);
    expect(actions.filter((action) => action === 'policy.threshold_reached')).toHaveLength(2);
  });
});
