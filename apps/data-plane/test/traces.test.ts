import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createLogger, createMetrics, type Metrics, startTracing, type Tracing } from '@weighbridge/runtime';
import { eventually, type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from '@weighbridge/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { post } from './post.ts';
import { ALICE, SPENT, startProxy, type TestProxy, type TestProxyOptions } from './proxy.ts';

const CALLER = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7' };
const TRACEPARENT = `00-${CALLER.traceId}-${CALLER.spanId}-01`;
const SERVER = 2;
const CLIENT = 3;

let vendor: MockVendor;
let proxy: TestProxy;
let collector: OtlpReceiver;
let metrics: Metrics;
/** Sends the queued spans. */
let flush: () => unknown;
let closing: (() => unknown)[];

beforeEach(async () => {
  vendor = await startMockVendor();
  collector = await startOtlpReceiver();
  metrics = createMetrics();
  closing = [() => vendor.close(), () => collector.close()];
});
afterEach(async () => {
  for (const close of closing) await close();
});

async function trace(ratio = 1): Promise<Tracing> {
  const logger = createLogger('test');
  logger.level = 'silent';
  const config = {
    endpoint: collector.url,
    headers: 'x-tenant=weigh%20bridge,x-key=k',
    timeoutMs: 5_000,
    serviceName: 'weighbridge-test',
    ratio,
  };
  const onShutdown = (_name: string, step: () => unknown) => {
    flush = step;
  };
  const tracing = await startTracing(config, metrics, { logger, onShutdown });
  if (!tracing) throw new Error('it was configured');
  return tracing;
}

async function start(options: Partial<TestProxyOptions> = {}): Promise<void> {
  const { tracing = await trace() } = options;
  proxy = await startProxy({ vendorUrl: vendor.url, ...options, tracing });
  closing.unshift(() => proxy.close());
}

const hello = { model: 'mock/echo', messages: [{ role: 'user', content: 'Hello there' }], max_tokens: 50 };

async function ask(headers: Record<string, string> = {}, body: object = hello, path = 'chat/completions') {
  const response = await post(proxy, `/v1/${path}`, body, headers);
  await response.text().catch(() => {});
  return response;
}

/** The spans of the request and its attempts that the collector received. */
async function received(): Promise<{ request: ReceivedSpan; attempts: ReceivedSpan[] }> {
  const request = await eventually(() => {
    const found = collector.spans.find(({ kind }) => kind === SERVER);
    if (!found) throw new Error('the collector has no request yet');
    return found;
  });
  const attempts = collector.spans.filter(({ kind }) => kind === CLIENT);
  return { request, attempts };
}

describe('a traced request', () => {
  it("is a span of the client's trace, with one per attempt, by the GenAI conventions", async () => {
    await start();
    const id = (await ask({ traceparent: TRACEPARENT })).headers.get('x-request-id');
    const { request, attempts } = await received();
    const [event] = proxy.events;
    const cost = Number(event?.costNanoUsd);
    expect(request).toMatchObject({
      service: 'weighbridge-test',
      name: '/v1/chat/completions',
      traceId: CALLER.traceId,
      parentSpanId: CALLER.spanId,
      status: 0,
      attributes: {
        'http.route': '/v1/chat/completions',
        'http.response.status_code': 200,
        'weighbridge.request.id': id,
        'weighbridge.key.id': 'key_alice',
        'weighbridge.policy.id': 'pol_1',
        'weighbridge.outcome': 'success',
        'weighbridge.attempts': 1,
        'weighbridge.cost.nano_usd': cost,
      },
    });
    expect(attempts).toMatchObject([
      {
        name: 'chat mock/echo',
        traceId: CALLER.traceId,
        parentSpanId: request.spanId,
        attributes: {
          'gen_ai.operation.name': 'chat',
          'gen_ai.provider.name': 'mock',
          'gen_ai.request.model': 'mock/echo',
          'gen_ai.request.stream': false,
          'gen_ai.request.max_tokens': 50,
          'gen_ai.usage.input_tokens': event?.usage?.input,
          'gen_ai.usage.output_tokens': event?.usage?.output,
          'gen_ai.response.id': event?.responseId,
          'server.address': '127.0.0.1',
          'http.response.status_code': 200,
          'weighbridge.connector.id': 'con_0',
          'gen_ai.usage.cost': Number(cost) / 1e9,
          'weighbridge.cost.nano_usd': cost,
          'weighbridge.cost.estimated': false,
        },
      },
    ]);
    expect(attempts[0]?.attributes['gen_ai.response.time_to_first_chunk']).toEqual(expect.any(Number));
    expect(collector.headers[0]).toMatchObject({ 'x-tenant': 'weigh bridge', 'x-key': 'k' });
  });

  it("passes the attempt's trace context to the vendor", async () => {
    await start();
    await ask({ traceparent: TRACEPARENT, tracestate: 'vendor=1' });
    const { attempts } = await received();
    expect(vendor.requests[0]?.headers).toMatchObject({
      traceparent: `00-${CALLER.traceId}-${attempts[0]?.spanId}-01`,
      tracestate: 'vendor=1',
    });
  });

  it('has the outcome of each attempt, and of the request', async () => {
    await start({ connectors: [{ id: 'con_a' }, { id: 'con_b' }], maxRetries: 1 });
    await ask({ 'x-mock-status': '500' });
    const { request, attempts } = await received();
    expect(attempts.map(({ attributes, status }) => [attributes['error.type'], status])).toEqual([
      ['server_error', 2],
      ['server_error', 2],
    ]);
    expect(attempts.map(({ attributes }) => attributes['weighbridge.attempt'])).toEqual([1, 2]);
    expect(request).toMatchObject({
      status: 2,
      attributes: { 'error.type': 'vendor_error', 'weighbridge.attempts': 2 },
    });
  });

  it('ends where any part of the service refuses it', async () => {
    await start();
    const unknown = { ...hello, model: 'mock/none' };
    const answers = [
      await ask({ authorization: 'Bearer nothing' }),
      await ask({ authorization: `Bearer ${SPENT}` }),
      await ask({}, unknown),
      await ask({ 'content-type': 'text/plain' }),
      await ask({}, hello, 'no-such-route'),
    ];
    await flush();
    const spans = collector.spans.filter(({ kind }) => kind === SERVER);
    expect(
      new Map(
        spans.map(({ attributes }) => [
          attributes['weighbridge.request.id'],
          attributes['http.response.status_code'],
        ]),
      ),
    ).toEqual(new Map(answers.map(({ headers, status }) => [headers.get('x-request-id'), status])));
    expect(spans.map(({ attributes }) => attributes['weighbridge.outcome'])).toEqual(
      expect.arrayContaining(['unauthorized', 'budget', 'invalid']),
    );
  });

  it('contains no prompts, responses or credentials', async () => {
    await start();
    const secret = { ...hello, messages: [{ role: 'user', content: 'canary in a coal mine' }] };
    await ask({ 'x-svc-labels': 'a=canary', cookie: 'canary' }, secret);
    await ask({ 'x-mock-status': '500' }, secret);
    await ask({ authorization: 'Bearer canary' });
    await ask({}, { ...hello, model: 'mock/canary' });
    await ask({}, hello, 'canary');
    await flush();
    expect(collector.spans.length).toBeGreaterThanOrEqual(7);
    for (const bytes of collector.raw) {
      expect(bytes.includes('canary')).toBe(false);
      expect(bytes.includes(ALICE)).toBe(false);
      expect(bytes.includes('vendor-secret')).toBe(false);
    }
  });
});

it("follows the client's sampling decision, and passes the trace on in any case", async () => {
  await start({ tracing: await trace(0) });
  await ask();
  await ask({ traceparent: TRACEPARENT.replace(/01$/, '00') });
  await ask({ traceparent: TRACEPARENT });
  await flush();
  expect(collector.spans.map(({ traceId }) => traceId)).toEqual([CALLER.traceId, CALLER.traceId]);
  expect(vendor.requests.map(({ headers }) => String(headers.traceparent).slice(-2))).toEqual([
    '00',
    '00',
    '01',
  ]);
});

it('serves while the collector is unavailable, and counts the dropped spans', async () => {
  await start();
  collector.status = 400;
  for (let n = 0; n < 3; n++) expect((await ask()).status).toBe(200);
  await Promise.resolve(flush()).catch(() => {});
  expect(await metrics.text()).toMatch(/^weighbridge_trace_spans_total\{result="failed"\} 6$/m);
});

it('bounds the queue of spans, and counts the dropped ones', async () => {
  const tracing = await trace();
  for (let n = 0; n < 3_000; n++) tracing.begin('x', { kind: 'internal' }).end();
  await flush();
  // One batch in flight, and a full queue.
  const sent = 512 + 2_048;
  expect(collector.spans).toHaveLength(sent);
  const text = await metrics.text();
  expect(text).toContain(`weighbridge_trace_spans_total{result="sent"} ${sent}`);
  expect(text).toContain(`weighbridge_trace_spans_total{result="dropped"} ${3_000 - sent}`);
});

it("passes the client's trace on unchanged where tracing is off", async () => {
  proxy = await startProxy({ vendorUrl: vendor.url });
  closing.unshift(() => proxy.close());
  await ask({ traceparent: TRACEPARENT });
  expect(vendor.requests[0]?.headers.traceparent).toBe(TRACEPARENT);
});

describe('prompts and responses', () => {
  const planted = 'sk-planted-0123456789abcdefghij';
  const secret = { ...hello, messages: [{ role: 'user', content: `canary ${planted}` }] };
  const textsOf = (attempts: readonly ReceivedSpan[], name: string) =>
    attempts.map(({ attributes }) => JSON.parse(String(attributes[name]))[0].parts[0].content);

  it.each([false, true])(
    'are in a trace where an operator enables it, without keys (streamed: %s)',
    async (stream) => {
      await start({ content: { maxLength: 1_000 } });
      await ask({}, { ...secret, stream });
      const { request, attempts } = await received();
      expect(textsOf(attempts, 'gen_ai.input.messages')).toEqual(['canary sk-[redacted]']);
      // The mock vendor echoes the prompt.
      expect(textsOf(attempts, 'gen_ai.output.messages')).toEqual(['canary sk-[redacted]']);
      expect(request.attributes).not.toHaveProperty(['gen_ai.input.messages']);
      for (const bytes of collector.raw) expect(bytes.includes('planted')).toBe(false);
    },
  );

  it('are cut, and left out of errors', async () => {
    await start({ content: { maxLength: 6 } });
    await ask({}, secret);
    await ask({ 'x-mock-status': '400' }, secret);
    await flush();
    const attempts = collector.spans.filter(({ kind }) => kind === CLIENT);
    expect(textsOf(attempts, 'gen_ai.input.messages')).toEqual(['canary', 'canary']);
    expect(attempts[1]?.attributes).not.toHaveProperty(['gen_ai.output.messages']);
  });

  it('are neither in the log nor in the metrics', async () => {
    const lines: string[] = [];
    await start({ content: { maxLength: 1_000 }, log: (line) => void lines.push(line) });
    await ask({}, secret);
    await received();
    expect(lines.join('')).toContain('"msg":"request"');
    expect(lines.join('')).not.toContain('canary');
    expect(await proxy.metrics.text()).not.toContain('canary');
  });
});
