import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { chat, type HostileCase, message, PLENTY } from './hostileCase.ts';
import { catalogPrice } from './prices.ts';
import { operate } from './product.ts';
import type { Answer, Asking, Scene, Tenant } from './scene.ts';

/** Enough for a few requests of `ask`, whose input is reserved at the dearest tier. */
const LIMIT = 30_000;
const ROW = 'further limits of a policy';
const SCRIPT = { 'output-tokens': '1000' };

const limited = (...limits: object[]) => ({
  limit_micro_usd: PLENTY,
  budget_mode: 'hard',
  counter_scope: 'policy',
  limits,
});
const EACH_USER = { name: 'each user', counter_scope: 'user', limit_micro_usd: LIMIT };
/** It costs ten times as much. */
const OF_DEAR = { name: 'dear', models: ['*/dear'], counter_scope: 'policy', limit_micro_usd: 10 * LIMIT };

function ask(tenant: Tenant, user?: string, model = 'local/plain'): Promise<Answer> {
  // Vendors get no attribution: their bills tell users apart by another header.
  const headers = user === undefined ? {} : { 'x-svc-user': user, 'x-number': billedAs(user) };
  const asking: Asking = { script: SCRIPT, headers };
  return tenant.ask('/v1/chat/completions', chat(model, { max_tokens: 1_000 }), asking);
}

const billedAs = (user: string) => `user-${user.slice(0, 20)}`;

/** The refusal that the budget ends these requests with. */
async function untilRefused(
  tenant: Tenant,
  user?: string,
  model?: string,
  code = 'budget_exhausted',
): Promise<Answer> {
  for (let times = 0; times < 20; times++) {
    const answer = await ask(tenant, user, model);
    if (answer.status === 200) continue;
    expect(answer).toMatchObject({ status: 429, code });
    return answer;
  }
  throw new Error('20 requests passed');
}

/** Whatever a caller says it is, or names, no counter of a limit passes its amount. */
export const FURTHER_LIMITS: readonly HostileCase[] = [
  {
    row: ROW,
    title:
      '64 first requests of an unseen customer at once spend no more than the limit, and others are served',
    async run({ tenant }) {
      const tried = await tenant(limited(EACH_USER));
      const answers = await Promise.all(Array.from({ length: 64 }, () => ask(tried, 'ann')));
      const passed = answers.filter(({ status }) => status === 200).length;
      expect(passed).toBeGreaterThan(0);
      expect(tried.billedBy('x-number').get(billedAs('ann'))).toBeLessThanOrEqual(LIMIT);
      expect((await ask(tried, 'bob')).status).toBe(200);
      expect(await tried.charged(passed + 1)).toBe(tried.billed());
    },
  },
  {
    row: ROW,
    title: '64 first requests of an unseen customer at once pass as many as a limit of requests lets pass',
    async run({ tenant }) {
      for (const budget_mode of ['hard', 'balanced']) {
        const each = { name: 'each user', counter_scope: 'user', limit_requests: 5 };
        const tried = await tenant({ ...limited(each), budget_mode });
        const answers = await Promise.all(Array.from({ length: 64 }, () => ask(tried, 'ann')));
        const passed = answers.filter(({ status }) => status === 200).length;
        expect(passed).toBeLessThanOrEqual(5);
        const codes = new Set(answers.map(({ code }) => code));
        for (const code of codes) expect(['', 'request_limit_exhausted', 'budget_contended']).toContain(code);
        const refused = await untilRefused(tried, 'ann', 'local/plain', 'request_limit_exhausted');
        expect(refused.json.error).toMatchObject({
          ...{ type: 'insufficient_quota', limit: 'each user', counter_scope: 'user', value: 'ann' },
        });
        expect(tried.entries()).toHaveLength(5);
        expect((await ask(tried, 'bob')).status).toBe(200);
      }
    },
  },
  {
    row: ROW,
    title: 'tokens of a customer stay within a limit of tokens, or within the bound where answers are longer',
    async run({ tenant }) {
      const each = { name: 'each user', counter_scope: 'user', limit_tokens: 6_000 };
      const tokensOf = (tried: Tenant) =>
        tried.entries().reduce((sum, { inputTokens, outputTokens }) => sum + inputTokens + outputTokens, 0);
      const hard = await tenant(limited(each));
      await Promise.all(Array.from({ length: 64 }, () => ask(hard, 'ann')));
      const refused = await untilRefused(hard, 'ann', 'local/plain', 'token_limit_exhausted');
      expect(refused.json.error).toMatchObject({ value: 'ann', limit: 'each user' });
      expect(tokensOf(hard)).toBeGreaterThan(1_000);
      expect(tokensOf(hard)).toBeLessThanOrEqual(6_000);
      // Each may be as much longer than it reserved as the answer is than the usual length.
      const balanced = await tenant({ ...limited(each), budget_mode: 'balanced' });
      const asking: Asking = { script: { 'output-tokens': '3000' }, headers: { 'x-svc-user': 'ann' } };
      const long = () => balanced.ask('/v1/chat/completions', chat('local/plain'), asking);
      const answers = await Promise.all(Array.from({ length: 64 }, long));
      const passed = answers.filter(({ status }) => status === 200).length;
      expect(passed).toBeGreaterThan(0);
      expect(tokensOf(balanced)).toBeLessThanOrEqual(6_000 + passed * (3_000 - 1_024));
      await eventually(async () => expect((await long()).code).toBe('token_limit_exhausted'));
    },
  },
  {
    row: ROW,
    title:
      '64 first requests at once open one window, which no refused request does, and pass no more than its limit',
    async run({ tenant, product }) {
      const each = {
        ...{ name: 'a sitting', counter_scope: 'user', window: { every: '5h', from: 'first_use' } },
        ...{ limit_micro_usd: LIMIT, limit_requests: 5 },
      };
      const tried = await tenant(limited(each));
      const tooLong = { script: SCRIPT, headers: { 'x-svc-user': 'ann' } };
      const body = chat('local/plain', { max_tokens: 100_000_000 });
      expect((await tried.ask('/v1/chat/completions', body, tooLong)).code).toBe('budget_exhausted');
      const refusedAt = Date.now();
      await Promise.all(Array.from({ length: 64 }, () => ask(tried, 'ann')));
      let refused: Answer;
      do refused = await ask(tried, 'ann');
      while (refused.code === '' || refused.code === 'budget_contended');
      expect(['request_limit_exhausted', 'budget_exhausted']).toContain(refused.code);
      expect(tried.entries().length).toBeLessThanOrEqual(5);
      expect(tried.billed()).toBeLessThanOrEqual(LIMIT);
      const { reset } = refused.json.error as { reset: string };
      const opened = new Date(reset).getTime() - 5 * 3_600_000;
      expect(opened).toBeGreaterThanOrEqual(refusedAt);
      expect(opened).toBeLessThanOrEqual(Date.now());
      expect((await ask(tried, 'bob')).status).toBe(200);
      await refusedRows(product, tried.keyId);
    },
  },
  {
    row: ROW,
    title: 'requests that a vendor refuses cost nothing, and do not count in a limit of requests',
    async run({ tenant }) {
      const tried = await tenant(limited({ name: 'three', counter_scope: 'policy', limit_requests: 3 }));
      const failing: Asking = { script: { status: '400' } };
      const body = chat('local/plain', { max_tokens: 1_000 });
      for (let times = 0; times < 5; times++) {
        expect((await tried.ask('/v1/chat/completions', body, failing)).status).toBe(400);
      }
      for (let times = 0; times < 3; times++) expect((await ask(tried)).status).toBe(200);
      expect((await ask(tried)).code).toBe('request_limit_exhausted');
    },
  },
  {
    row: ROW,
    title:
      'a new customer in each request shares what is beyond the bound, and takes nothing from another key',
    async run(scene) {
      const tried = await scene.tenant(limited({ ...EACH_USER, max_counters: 2 }));
      const answers = [];
      for (let n = 0; n < 12; n++) answers.push(await ask(tried, `user ${n}`));
      const codes = new Set(answers.map(({ code }) => code));
      expect(codes.delete('')).toBe(true);
      // What is beyond is used up, or still held by a request before.
      expect(codes.size).toBeGreaterThan(0);
      for (const code of codes) expect(['budget_exhausted', 'budget_contended']).toContain(code);
      const beyond = [...tried.billedBy('x-number')].filter(([user]) => !/^user-user [01]$/.test(user));
      expect(beyond.reduce((sum, [, cost]) => sum + cost, 0)).toBeLessThanOrEqual(LIMIT);
      // Its counters go on.
      expect((await ask(tried, 'user 0')).status).toBe(200);
      expect(await statusOfAnotherKey(scene, tried.policyId)).toBe(200);
    },
  },
  {
    row: ROW,
    title:
      'a new customer in each request shares the rates beyond the bound, and takes none from another key or customer',
    async run(scene) {
      const each = { name: 'each user', counter_scope: 'user', requests_per_minute: 3, max_counters: 2 };
      const tried = await scene.tenant(limited(each));
      const passed = new Map<string, number>();
      const startedAt = Date.now();
      for (let n = 0; n < 60; n++) {
        const user = `user ${n % 20}`;
        const answer = await ask(tried, user);
        expect(['', 'rate_limit_exceeded']).toContain(answer.code);
        if (answer.status === 200) passed.set(user, (passed.get(user) ?? 0) + 1);
        else expect(answer.json.error).toMatchObject({ limit: 'each user', counter_scope: 'user' });
      }
      const minutes = 2 + Math.floor((Date.now() - startedAt) / 60_000);
      const sum = [...passed.values()].reduce((all, one) => all + one, 0);
      expect(sum).toBeGreaterThan(0);
      expect(sum).toBeLessThanOrEqual(minutes * 3 * (2 + 1));
      expect(await statusOfAnotherKey(scene, tried.policyId)).toBe(200);
    },
  },
  {
    row: ROW,
    title: 'no spelling of a customer escapes: long ones, ones that name other counters, none',
    async run({ tenant }) {
      const tried = await tenant(limited(EACH_USER));
      for (const user of ['x'.repeat(4_000), 'others', 'unknown', 'policy', 'user:ann', 'lim_1/2/3', '']) {
        await untilRefused(tried, user);
      }
      const spent = [...tried.billedBy('x-number').values()];
      expect(spent.length).toBe(7);
      for (const cost of spent) expect(cost).toBeLessThanOrEqual(LIMIT);
    },
  },
  {
    row: ROW,
    title: 'an alias of a limited model, a profile and a failover to it count where the model does',
    run: expectNoWayAround,
  },
  {
    row: ROW,
    title: 'a limited model that works as a tool of another, or may answer instead, counts in its limit',
    async run({ tenant }) {
      const tried = await tenant({ ...limited(OF_DEAR), budget_mode: 'balanced' });
      const advisor = { type: 'advisor_20260301', name: 'advisor', model: 'dear', max_uses: 1 };
      const advised = message({ tools: [advisor] });
      let refused: Answer | undefined;
      for (let times = 0; times < 40 && !refused; times++) {
        const answer = await tried.ask('/v1/messages', advised, { script: { 'advisor-tokens': '3000' } });
        if (answer.status !== 200) refused = answer;
      }
      const error = { limit: 'dear', message: expect.stringContaining('names other models beside its own') };
      expect([refused?.status, refused?.json.error]).toEqual([429, expect.objectContaining(error)]);
      for (const models of [['dear'], ['local/dear'], ['plain']]) {
        const answer = await tried.ask('/v1/chat/completions', chat('local/plain', { models }));
        expect([answer.status, answer.json.error]).toEqual([429, expect.objectContaining(error)]);
      }
      expect((await ask(tried)).status).toBe(200);
    },
  },
  {
    row: ROW,
    title: 'a profile passes over a model at its limit, which holds nothing for it, and goes on to the next',
    run: expectPassedOver,
  },
  {
    row: ROW,
    title: 'a customer named by a mapped header or a body has one counter, however it is spelled there',
    async run({ tenant }) {
      const sources = { attribution_headers: { 'X-Customer': 'user' }, user_from_body: true };
      const tried = await tenant({ ...limited(EACH_USER), ...sources });
      const spellings: readonly [headers: Record<string, string>, fields: object][] = [
        [{ 'x-customer': 'ann' }, {}],
        [{}, { user: 'ann' }],
        [{}, { user: ' ann\u0000' }],
        [{}, { metadata: { user_id: 'ann' } }],
        [{ 'x-svc-user': 'ann' }, { user: 'bob' }],
      ];
      const send = ([headers, fields]: (typeof spellings)[number]) => {
        const body = chat('local/plain', { max_tokens: 1_000, ...fields });
        return tried.ask('/v1/chat/completions', body, { script: SCRIPT, headers });
      };
      const answers = [];
      for (let times = 0; times < 5; times++) for (const one of spellings) answers.push(await send(one));
      expect(answers.some(({ status }) => status === 200)).toBe(true);
      expect(tried.billed()).toBeLessThanOrEqual(LIMIT);
      for (const one of spellings) {
        const refused = await send(one);
        expect([refused.status, refused.json.error]).toEqual([
          429,
          expect.objectContaining({ value: 'ann' }),
        ]);
      }
      expect((await send([{}, { user: 'bob' }])).status).toBe(200);
    },
  },
  {
    row: ROW,
    title: 'a refusal names the limit and the value of the caller, and holds nothing of the other budgets',
    async run({ tenant, product }) {
      const tried = await tenant({ ...limited(EACH_USER), limit_micro_usd: 3 * LIMIT });
      const refused = await untilRefused(tried, 'ann@example.com');
      expect(refused.json.error).toMatchObject({
        limit: 'each user',
        limit_id: expect.stringMatching(/^lim_/),
        counter_scope: 'user',
        value: 'ann@example.com',
        policy_id: tried.policyId,
        reset: expect.any(String),
      });
      // Another key may have spent for the same customer.
      expect(refused.text).not.toMatch(/spent|\d micro-USD\)/);
      for (let times = 0; times < 20; times++) await untilRefused(tried, 'ann@example.com');
      expect((await untilRefused(tried, 'bob')).text).not.toContain('ann@example.com');
      // What is left of the policy's own budget can be spent.
      expect((await ask(tried, 'cy')).status).toBe(200);
      const [row] = await refusedRows(product, tried.keyId);
      expect(row?.refusal).toMatchObject({
        policy_id: tried.policyId,
        counter: {
          limit_id: expect.stringMatching(/^lim_/),
          value: expect.stringMatching(/^(ann@example\.com|bob)$/),
          limit_micro_usd: LIMIT,
        },
      });
    },
  },
  {
    row: ROW,
    title:
      'a request without the attribution that a limit needs is refused with the header, before any vendor gets it',
    async run({ tenant, product }) {
      const tried = await tenant(limited({ ...EACH_USER, unknown: 'refuse' }));
      const answer = await ask(tried);
      expect(answer).toMatchObject({ status: 400, code: 'attribution_required' });
      expect(answer.text).toContain('X-Svc-User');
      expect(answer.json.error).toMatchObject({ limit: EACH_USER.name });
      const [row] = await refusedRows(product, tried.keyId);
      expect(row?.refusal).toMatchObject({
        counter: { limit_id: expect.stringMatching(/^lim_/), value: null },
      });
      expect(tried.billed()).toBe(0);
      expect((await ask(tried, 'ann')).status).toBe(200);
    },
  },
];

async function statusOfAnotherKey({ product }: Scene, policyId: string): Promise<number> {
  const name = `another under ${policyId}`;
  const key = await operate(product, 'POST', '/api/v1/keys', {
    name,
    principal_id: name,
    policy_id: policyId,
    scopes: ['inference'],
  });
  const response = await fetch(`${product.inferenceUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${String(key.key)}`,
      'content-type': 'application/json',
      'x-svc-user': 'of another key',
    },
    body: JSON.stringify(chat('local/plain', { max_tokens: 1_000 })),
  });
  return response.status;
}

async function refusedRows(product: Scene['product'], keyId: string): Promise<{ refusal: object }[]> {
  return await eventually(async () => {
    const { data } = await operate(product, 'GET', `/api/v1/requests?key_id=${keyId}&outcome=refused`);
    const rows = data as { refusal: object }[];
    if (rows.length === 0) throw new Error('no refused request has a row yet');
    return rows;
  });
}

async function expectNoWayAround({ tenant, product }: Scene): Promise<void> {
  const tried = await tenant(limited(OF_DEAR));
  const name = tried.mark;
  const unreachable = {
    name,
    provider: name,
    dialect: 'openai',
    base_url: 'http://127.0.0.1:9/v1',
    credential: 'x',
  };
  await operate(product, 'POST', '/api/v1/connectors', unreachable);
  await operate(product, 'PUT', `/api/v1/catalog/models/${encodeURIComponent(`${name}/first`)}`, {
    context_window: 1_000,
    max_output_tokens: 1_000,
    price: catalogPrice('plain'),
  });
  await operate(product, 'POST', '/api/v1/aliases', { name: `cheap-${name}`, target: 'local/dear' });
  const targets = [{ model: `${name}/first` }, { model: 'local/dear' }];
  await operate(product, 'POST', '/api/v1/profiles', { name: `over-${name}`, strategy: 'ordered', targets });
  for (const model of [`router/over-${name}`, `cheap-${name}`, 'local/dear']) {
    for (let times = 0; times < 4; times++) await ask(tried, undefined, model);
  }
  await untilRefused(tried, undefined, `cheap-${name}`);
  expect(tried.entries().some(({ model }) => model === 'dear')).toBe(true);
  expect(tried.billed()).toBeLessThanOrEqual(10 * LIMIT);
}

async function expectPassedOver({ tenant, product }: Scene): Promise<void> {
  const main = 20 * LIMIT;
  const tried = await tenant({ ...limited(OF_DEAR), limit_micro_usd: main });
  const name = `cheaper-${tried.mark}`;
  const targets = [{ model: 'local/dear' }, { model: 'local/plain' }];
  await operate(product, 'POST', '/api/v1/profiles', { name, strategy: 'ordered', targets });
  let passed = 0;
  let refused: Answer | undefined;
  for (let times = 0; times < 400 && !refused; times++) {
    const answer = await ask(tried, undefined, `router/${name}`);
    // The proxy has not got the profile yet.
    if (answer.status === 404) continue;
    if (answer.status !== 200) refused = answer;
    else if (answer.headers.get('x-svc-model') === 'local/plain') {
      passed++;
      expect(answer.headers.get('x-svc-skipped')).toBe('local/dear dear');
      expect(answer.headers.get('x-svc-attempts')).toBe('1');
    }
  }
  expect(passed).toBeGreaterThan(10);
  // The budget of the policy ends it, with all of what it has but less than one request needs.
  expect(refused).toMatchObject({ status: 429, code: 'budget_exhausted' });
  expect(refused?.json.error).not.toHaveProperty('limit');
  const { estimate_micro_usd: needed = 0 } = (refused?.json.error ?? {}) as { estimate_micro_usd?: number };
  expect(tried.billed()).toBeLessThanOrEqual(main);
  expect(tried.billed()).toBeGreaterThan(main - needed);
  const dear = tried.entries().filter(({ model }) => model === 'dear');
  expect(dear.length).toBeGreaterThan(0);
  const rows = await tried.rows(passed + dear.length);
  const skips = rows.flatMap(({ attempts }) => attempts as { skipped: readonly string[] }[]);
  expect(skips.filter(({ skipped }) => skipped[0] === 'local/dear dear')).toHaveLength(passed);
  expect(await tried.charged(passed + dear.length)).toBe(tried.billed());
}
