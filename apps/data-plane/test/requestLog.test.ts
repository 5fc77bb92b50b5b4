import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createLogger } from '@weighbridge/runtime';
import { eventually } from '@weighbridge/testing';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createRequestLog } from '../src/observe/requestLog.ts';
import { observe } from '../src/observe/requestObservation.ts';
import { post } from './post.ts';
import { ALICE, SPENT, startProxy, type TestProxy } from './proxy.ts';

const CANARY = 'sk-canary-7f3a9c1e5b2d8046a1c3e5f7';
const MARK = 'canary';

let vendor: MockVendor;
let proxy: TestProxy;
let lines: string[];

beforeEach(async () => {
  lines = [];
  vendor = await startMockVendor();
  proxy = await startProxy({ vendorUrl: vendor.url, log: (line) => void lines.push(line) });
});
afterEach(async () => {
  await proxy.close();
  await vendor.close();
});

const hello = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello there' }] };

async function ask(headers: Record<string, string> = {}, body: object | string = hello, query = '') {
  const response = await post(proxy, `/v1/chat/completions${query}`, body, headers);
  await response.text().catch(() => {});
  return response;
}

/** Waits for the log line of a request. */
async function lineOf(response: Response): Promise<Record<string, unknown>> {
  const id = response.headers.get('x-request-id');
  return await eventually(() => {
    const found = lines.map((line) => JSON.parse(line)).filter((one) => one.msg === 'request');
    const [line, ...others] = found.filter(({ requestId }) => requestId === id);
    expect(line).toBeDefined();
    expect(others).toEqual([]);
    return line;
  });
}

it('logs key, model, connector, outcome and cost in one line', async () => {
  expect(await lineOf(await ask())).toMatchObject({
    level: 30,
    endpoint: 'chat_completions',
    outcome: 'success',
    status: 200,
    keyId: 'key_alice',
    policyId: 'pol_1',
    model: 'mock/echo',
    connectorId: 'con_0',
    attempts: 1,
    streamed: false,
    durationMs: expect.any(Number),
    overheadMs: expect.any(Number),
    inputTokens: proxy.events[0]?.usage?.input,
    outputTokens: proxy.events[0]?.usage?.output,
    costNanoUsd: String(proxy.events[0]?.costNanoUsd),
  });
});

it('logs why a request failed', async () => {
  expect(await lineOf(await ask({ 'x-mock-status': '503' }))).toMatchObject({
    level: 40,
    outcome: 'vendor_error',
    status: 503,
  });
  expect(await lineOf(await ask({ authorization: `Bearer ${SPENT}` }))).toMatchObject({
    outcome: 'budget',
    status: 429,
    code: 'budget_exhausted',
    keyId: 'key_spent',
    attempts: 0,
  });
  expect(await lineOf(await ask({ authorization: 'Bearer nothing' }))).toMatchObject({
    outcome: 'unauthorized',
    status: 401,
    code: 'invalid_api_key',
  });
});

it('logs no secret, wherever it was in the request', async () => {
  const inBody = { ...hello, messages: [{ role: 'user', content: CANARY }] };
  const answers = [
    await ask({ authorization: `Bearer ${CANARY}` }),
    await ask({ authorization: '', 'x-api-key': CANARY }),
    await ask({ cookie: `session=${CANARY}`, 'x-svc-labels': `a=${CANARY}`, 'x-other': CANARY }),
    await ask({}, inBody),
    await ask({ 'x-mock-status': '500' }, inBody),
    await ask({ 'x-mock-reset': 'before' }, inBody),
    await ask({ 'x-mock-reset': 'mid', 'x-mock-chunks': '4' }, { ...inBody, stream: true }),
    await ask({}, { ...hello, model: `mock/${CANARY}` }),
    await ask({}, { ...hello, model: CANARY }),
    await ask({}, `{"model": "${CANARY}`),
    await ask({ 'content-type': CANARY }),
    await ask({}, hello, `?key=${CANARY}`),
    await fetch(`${proxy.url}/v1/${CANARY}?a=${CANARY}`, { headers: { authorization: `Bearer ${ALICE}` } }),
    await fetch(`${proxy.url}/v1/responses/${CANARY}`, { headers: { authorization: `Bearer ${ALICE}` } }),
  ];
  // All were logged, so the search below is not empty.
  for (const answer of answers) await lineOf(answer);
  for (const line of lines) {
    expect(line).not.toContain(MARK);
    expect(line).not.toContain(ALICE);
    expect(line).not.toContain('vendor-secret');
  }
  expect(await proxy.metrics.text()).not.toContain(MARK);
});

it('logs a sample of the successes, all failures, and at most 100 lines a second, 20 of one caller', () => {
  const logged: Record<string, unknown>[] = [];
  const logger = createLogger('test', { write: (line) => void logged.push(JSON.parse(line)) });
  let random = 0;
  const log = createRequestLog({ logger, successRatio: 0.25, random: () => random });
  const observed = observe({ id: 'req_1', endpoint: 'other', receivedAt: 0, key: undefined });
  for (; random < 1; random += 0.125) log(observed, 'success', 1);
  expect(logged).toHaveLength(2);
  for (let n = 0; n < 500; n++) log(observed, 'invalid', 2);
  expect(logged).toHaveLength(20);
  for (let n = 0; n < 10; n++) {
    const ofKey = observe({
      id: 'req_1',
      endpoint: 'other',
      receivedAt: 0,
      key: { id: `key_${n}`, principalId: 'ada', attribution: {}, policies: [] },
    });
    for (let line = 0; line < 10; line++) log(ofKey, 'invalid', 3);
  }
  expect(logged).toHaveLength(100);
  log(observed, 'invalid', 1_001);
  expect(logged.slice(100)).toMatchObject([{ skipped: 502 }, { msg: 'request' }]);
});
