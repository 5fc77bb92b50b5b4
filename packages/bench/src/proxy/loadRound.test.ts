import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import type { LoadOrder } from './loadOrder.ts';
import { runLoad } from './loadRound.ts';
import { STREAMED_ANSWER, STREAMED_EVENTS, WHOLE_ANSWER, type Workload } from './workload.ts';

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

it('counts the answers of as many connections as it has, with tokens in turns', async () => {
  const seen: unknown[] = [];
  const url = await serve(({ headers }, response) => {
    seen.push([headers.authorization, headers['content-length'], headers['x-more']]);
    response.end(WHOLE_ANSWER);
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

it('reads streams, however they are cut', async () => {
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
    'a byte that is another',
    (_, response) => {
      const wrong = Buffer.from(WHOLE_ANSWER);
      wrong[200] = (wrong[200] ?? 0) ^ 1;
      response.end(wrong);
    },
    'something else',
  ],
  ['an answer that is cut', (_, response) => response.end(WHOLE_ANSWER.subarray(1)), 'something else'],
  [
    'an answer without its end',
    (_, response) => response.end(WHOLE_ANSWER.subarray(0, -1)),
    'bytes instead of',
  ],
  [
    'more than the answer',
    (_, response) => response.end(Buffer.concat([WHOLE_ANSWER, WHOLE_ANSWER])),
    'else',
  ],
  ['another status', (_, response) => response.writeHead(503).end(WHOLE_ANSWER), 'answered 503'],
  ['a connection that breaks', (_, response) => response.socket?.destroy(), 'closed a connection'],
])('does not pass over %s', async (_what, listener, complaint) => {
  await expect(load(await serve(listener))).rejects.toThrow(complaint);
});

it('does not pass over a stream that misses an event', async () => {
  const [first = Buffer.alloc(0)] = STREAMED_EVENTS;
  const url = await serve((_, response) => response.end(STREAMED_ANSWER.subarray(first.length)));
  await expect(load(url, { stream: true })).rejects.toThrow('something else');
});

it('takes an answer that was written anew for right where what counts stands in it', async () => {
  const anew = JSON.stringify({ ...JSON.parse(WHOLE_ANSWER.toString()), provider: 'other' });
  const url = await serve((_, response) => response.end(anew));
  await expect(load(url, {}, { expects: 'mark' })).resolves.toMatchObject({ measured: expect.any(Number) });
  await expect(load(url)).rejects.toThrow('something else');
});

it('counts time at a rate from when a request was due, not from when a connection was free', async () => {
  const tookMs = 40;
  const url = await serve((_, response) => setTimeout(() => response.end(WHOLE_ANSWER), tookMs));
  const { measured, latencyMs, lateMs } = await load(url, { rate: 100 }, { connections: 1, ms: 100 });
  expect(measured).toBe(10);
  // The tenth was due after 90 ms, and nine others came before it.
  expect(latencyMs.max).toBeGreaterThan(10 * tookMs - 90 - 20);
  expect(lateMs.max).toBeGreaterThan(9 * tookMs - 90 - 20);
});
