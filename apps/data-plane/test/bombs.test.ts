import { request } from 'node:http';
import { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import { expectLinear } from '@weighbridge/testing';
import { describe, expect, it } from 'vitest';
import { HELLO } from './post.ts';
import { ALICE, type TestProxy } from './proxy.ts';
import { startVendor } from './servers.ts';
import { startProxyForTest } from './useProxy.ts';

const MIB = 1024 * 1024;
const EVENT = `data: ${JSON.stringify({ choices: [{ delta: { content: 'x' } }] })}\n\n`;
const BOMB = Buffer.alloc(100 * MIB, EVENT);
const USAGE = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 9 } })}\n\n`;

interface Answer {
  readonly status: number | undefined;
  readonly body: Buffer;
  readonly isWhole: boolean;
}

/** Without fetch, which decodes the response. */
function ask(proxy: TestProxy, fields: object, headers: Record<string, string>): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json', ...headers },
    };
    const sent = request(`${proxy.url}/v1/chat/completions`, options, (answer) => {
      const chunks: Buffer[] = [];
      answer.on('data', (chunk) => chunks.push(chunk));
      answer.on('error', () => {});
      answer.on('close', () =>
        resolve({ status: answer.statusCode, body: Buffer.concat(chunks), isWhole: answer.complete }),
      );
    });
    sent.on('error', reject);
    sent.end(JSON.stringify({ ...HELLO, ...fields }));
  });
}

/** A vendor that answers every request with these bytes. */
function vendorOf(body: Buffer, contentType: string, encoding?: string): Promise<string> {
  return startVendor((received, response) => {
    received.resume();
    const headers = encoding === undefined ? {} : { 'content-encoding': encoding };
    response.writeHead(200, { 'content-type': contentType, ...headers }).end(body);
  });
}

/** The default quality of Brotli takes a hundred times as long for a bomb as small. */
const brotli = (bytes: Buffer, quality = 4) =>
  brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: quality } });
const ENCODERS = { gzip: gzipSync, deflate: deflateSync, br: brotli };
const wantsUsage = { stream: true, stream_options: { include_usage: true } };

describe.each(Object.entries(ENCODERS))('a bomb in %s', (encoding, encode) => {
  const bomb = encode(BOMB);

  it.each([
    ['stream', 'text/event-stream', wantsUsage],
    ['document', 'application/json', {}],
  ])('passes unchanged as a %s, and is not decoded beyond a limit', async (_what, type, fields) => {
    const proxy = await startProxyForTest({
      vendorUrl: await vendorOf(bomb, type, encoding),
      memoryBudgetBytes: 64 * MIB,
    });
    let mostBytes = 0;
    const watch = setInterval(() => {
      mostBytes = Math.max(mostBytes, proxy.memory.usedBytes);
    }, 1);
    const answer = await ask(proxy, fields, { 'accept-encoding': encoding });
    clearInterval(watch);
    expect([answer.status, answer.isWhole]).toEqual([200, true]);
    expect(answer.body.equals(bomb)).toBe(true);
    expect(mostBytes).toBeLessThanOrEqual(64 * MIB);
    expect(proxy.events).toMatchObject([{ estimated: true }]);
    expect(proxy.events[0]?.costNanoUsd).toBeGreaterThan(0n);
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);
  });

  it('ends a stream that can only be passed decoded, with an error', async () => {
    const proxy = await startProxyForTest({ vendorUrl: await vendorOf(bomb, 'text/event-stream', encoding) });
    // The usage that the client did not ask for would be hidden, so the vendor was asked for plain text.
    const answer = await ask(proxy, { stream: true }, {});
    expect(answer.body.subarray(-500).toString()).toContain('could not be decompressed');
    expect(answer.body.length).toBeLessThan(64 * MIB);
    expect(proxy.events).toMatchObject([{ estimated: true }]);
    await expect.poll(() => proxy.memory.usedBytes).toBe(0);
  });
});

describe('an event that is too large to be held', () => {
  it('passes unchanged, and the usage after it is read', async () => {
    const stream = Buffer.from(`data: ${'x'.repeat(20 * MIB)}\n\n${EVENT}${USAGE}data: [DONE]\n\n`);
    for (const memoryBudgetBytes of [256 * MIB, 4 * MIB]) {
      const vendorUrl = await vendorOf(stream, 'text/event-stream');
      const proxy = await startProxyForTest({ vendorUrl, memoryBudgetBytes });
      const answer = await ask(proxy, wantsUsage, {});
      expect(answer.body.equals(stream)).toBe(true);
      expect(proxy.events).toMatchObject([{ estimated: false, usage: { input: 7, output: 9 } }]);
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    }
  });

  it.each(['\n', '\r', 'data:\n', 'data:\r', ':\n\n'])('made of %j passes in linear time', (unit) =>
    expectLinear(MIB / 2, async (size) => {
      const stream = Buffer.concat([Buffer.alloc(size, unit), Buffer.from(`\n\n${USAGE}`)]);
      const proxy = await startProxyForTest({ vendorUrl: await vendorOf(stream, 'text/event-stream') });
      return async () => {
        proxy.events.length = 0;
        const answer = await ask(proxy, wantsUsage, {});
        expect(answer.body.equals(stream)).toBe(true);
        expect(proxy.events).toMatchObject([{ estimated: false, usage: { input: 7 } }]);
      };
    }),
  );
});

describe('a document that is passed in pieces for lack of memory', () => {
  const USED = { input_tokens: 3, output_tokens: 4, total_tokens: 7 };

  it.each([
    ['without an id', { object: 'response', output: [] }],
    ['with an id that is none', { id: 5, usage: USED }],
    ['with its id', { id: 'resp_1', usage: USED }],
    ['with its id at its end', { output: ['x'.repeat(100_000)], usage: USED, id: 'resp_1' }],
  ])('reaches the client whole, %s, unless it can not be read', async (_what, document) => {
    const body = JSON.stringify(document);
    for (const encoding of [undefined, 'gzip'] as const) {
      const sent = encoding ? gzipSync(body) : Buffer.from(body);
      const proxy: TestProxy = await startProxyForTest({
        vendorUrl: await startVendor((received, response) => {
          received.resume();
          proxy.memory.take(400 * MIB);
          const headers = encoding === undefined ? {} : { 'content-encoding': encoding };
          response.writeHead(200, { 'content-type': 'application/json', ...headers });
          response.write(sent.subarray(0, 10));
          setTimeout(() => response.end(sent.subarray(10)), 20);
        }),
      });
      const answer = await fetch(`${proxy.url}/v1/responses`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
        body: JSON.stringify({ model: 'mock/echo', input: 'x' }),
      });
      const text = await answer.text();
      if (encoding === undefined) expect([answer.status, text]).toEqual([200, body]);
      // Without memory to decompress it, no one could record what it names.
      else expect([answer.status, text]).toEqual([502, expect.stringContaining('memory is short')]);
      proxy.memory.release(400 * MIB);
      await expect.poll(() => proxy.memory.usedBytes).toBe(0);
    }
  });

  it('is withheld, not cut short, if the vendor breaks off before it named its id', async () => {
    const proxy: TestProxy = await startProxyForTest({
      vendorUrl: await startVendor((received, response) => {
        received.resume();
        proxy.memory.take(400 * MIB);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.write('{"output":["');
        setTimeout(() => response.destroy(), 20);
      }),
    });
    const answer = await fetch(`${proxy.url}/v1/responses`, {
      method: 'POST',
      headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'mock/echo', input: 'x' }),
    });
    expect(answer.status).toBe(502);
    expect(await answer.json()).toMatchObject({ error: { code: 'upstream_error' } });
  });
});

it('a compressed document without usage is counted by what it decodes to', async () => {
  const lines = Array.from(
    { length: 160_000 },
    (_, at) => `The weight of load ${at} is ${at * 7} kilograms. `,
  );
  const body = JSON.stringify({ choices: [{ message: { content: lines.join('') } }], padding: ['x'] });
  expect(body.length).toBeGreaterThan(7 * MIB);
  const document = Buffer.from(`${' '.repeat(2 * MIB)}${body}`);
  const sent = brotli(document, 5);
  expect(sent.length).toBeLessThan(MIB);
  const proxy = await startProxyForTest({ vendorUrl: await vendorOf(sent, 'application/json', 'br') });
  const answer = await ask(proxy, { max_tokens: 1_000_000 }, { 'accept-encoding': 'br' });
  expect(answer.body.equals(sent)).toBe(true);
  expect(proxy.events).toMatchObject([{ estimated: true, usage: { output: 1_000_000 } }]);
});
