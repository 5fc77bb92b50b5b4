import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import type { LoadOrder } from './loadOrder.ts';
import { runLoad } from './runLoad.ts';
import {
  PACED_EVENTS,
  STREAMED_EVENTS,
  STREAMED_RESPONSE,
  WHOLE_RESPONSE,
  type Workload,
} from './workload.ts';

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().once('end', () => listener(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function load(url: string, workload: Partial<Workload> = {}, more: Partial<LoadOrder> = {}) {
  return await runLoad({
    url,
    path: '/v1/chat/completions',
    headers: { 'x-more': '1' },
    tokens: ['a', 'b'],
    workload: { name: 'test', stream: false, bytes: 1_024, ...workload },
    expects: 'same bytes',
    connections: 2,
    ms: 20,
    ...more,
  });
}

it('counts the responses of all connections, with tokens in turns', async () => {
  const seen: unknown[] = [];
  const url = await serve(({ headers }, response) => {
    seen.push([headers.authorization, headers['content-length'], headers['x-more']]);
    response.end(WHOLE_RESPONSE);
  });
  const { requests, measured, latencyMs, firstByteMs } = await load(url);
  expect(requests).toBe(seen.length);
  expect(requests).toBe(measured + 2);
  expect(seen.slice(0, 2)).toEqual([
    ['Bearer a', '1024', '1'],
    ['Bearer b', '1024', '1'],
  ]);
  expect(latencyMs.p50).toBeGreaterThanOrEqual(firstByteMs.p50);
});

it('reads streams, however they are split', async () => {
  const url = await serve((_, response) => {
    for (const event of STREAMED_EVENTS) {
      response.write(event.subarray(0, 9));
      response.write(event.subarray(9));
    }
    response.end();
  });
  const { measured } = await load(url, { stream: true });
  expect(measured).toBeGreaterThan(0);
});

it.each<[string, RequestListener, string]>([
  [
    'a wrong byte',
    (_, response) => {
      const wrong = Buffer.from(WHOLE_RESPONSE);
      wrong[200] = (wrong[200] ?? 0) ^ 1;
      response.end(wrong);
    },
    'something else',
  ],
  [
    'a response without its start',
    (_, response) => response.end(WHOLE_RESPONSE.subarray(1)),
    'something else',
  ],
  [
    'a response without its end',
    (_, response) => response.end(WHOLE_RESPONSE.subarray(0, -1)),
    'bytes instead of',
  ],
  [
    'more than one response',
    (_, response) => response.end(Buffer.concat([WHOLE_RESPONSE, WHOLE_RESPONSE])),
    'else',
  ],
  ['another status', (_, response) => response.writeHead(503).end(WHOLE_RESPONSE), 'answered 503'],
  ['a connection that breaks', (_, response) => response.socket?.destroy(), 'closed a connection'],
])('rejects on %s', async (_what, listener, complaint) => {
  await expect(load(await serve(listener))).rejects.toThrow(complaint);
});

it('rejects on a stream that lacks an event', async () => {
  const [first = Buffer.alloc(0)] = STREAMED_EVENTS;
  const url = await serve((_, response) => response.end(STREAMED_RESPONSE.subarray(first.length)));
  await expect(load(url, { stream: true })).rejects.toThrow('something else');
});

it('accepts a rewritten response that contains the mark, if it expects a mark', async () => {
  const rewritten = JSON.stringify({ ...JSON.parse(WHOLE_RESPONSE.toString()), provider: 'other' });
  const url = await serve((_, response) => response.end(rewritten));
  await expect(load(url, {}, { expects: 'mark' })).resolves.toMatchObject({ measured: expect.any(Number) });
  await expect(load(url)).rejects.toThrow('something else');
});

it('ends a closed loop after the most requests', async () => {
  const url = await serve((_, response) => response.end(WHOLE_RESPONSE));
  const { measured } = await load(url, {}, { ms: 60_000, maxRequests: 7 });
  expect(measured).toBe(7);
});

it('sends each request of a rate when it is due, not before', async () => {
  const url = await serve((_, response) => response.end(WHOLE_RESPONSE));
  const { measured, lateMs } = await load(url, { rate: 200 }, { ms: 200 });
  expect(measured).toBe(40);
  expect(lateMs.p50).toBeGreaterThanOrEqual(0);
  expect(lateMs.max).toBeLessThan(1_000);
  await expect(load(url, { rate: 10 }, { ms: 1 })).resolves.toMatchObject({ measured: 1 });
});

it('checks the first and last words and the usage of a rewritten stream, also of one that takes its time', async () => {
  const spaced = (events: readonly Buffer[]) => Buffer.concat(events).toString().replaceAll('":', '": ');
  const url = await serve((_, response) => response.end(spaced(PACED_EVENTS)));
  const paced = { stream: true, isPaced: true } as const;
  await expect(load(url, paced, { expects: 'mark' })).resolves.toMatchObject({
    measured: expect.any(Number),
  });
  await expect(load(url, { stream: true }, { expects: 'mark' })).resolves.toBeDefined();
  const cut = await serve((_, response) => response.end(spaced(PACED_EVENTS.toSpliced(62, 1))));
  await expect(load(cut, paced, { expects: 'mark' })).rejects.toThrow('something else');
});

it('measures latency at a rate from when a request was due, not from when a connection was free', async () => {
  const tookMs = 40;
  const url = await serve((_, response) => setTimeout(() => response.end(WHOLE_RESPONSE), tookMs));
  const { measured, latencyMs, lateMs } = await load(url, { rate: 100 }, { connections: 1, ms: 100 });
  expect(measured).toBe(10);
  // The tenth was due after 90 ms, and nine others came before it.
  expect(latencyMs.max).toBeGreaterThan(10 * tookMs - 90 - 20);
  expect(lateMs.max).toBeGreaterThan(9 * tookMs - 90 - 20);
});
