import { request } from 'node:http';
import zlib, { brotliCompressSync, constants, deflateSync, gzipSync } from 'node:zlib';
import OpenAI from 'openai';
import { describe, expect, it } from 'vitest';
import { BODY_ENCODINGS } from '../src/server/bodyDecoders.ts';
import { ALICE, settled } from './proxy.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';
import { zstdFrame, zstdRun } from './zstdFrames.ts';

const vendor = useVendor();
const proxy = useProxy(vendor);

const chat = (content: string) =>
  JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content }] });

/** Node decodes it since 22.15. */
const ZSTD = 'createZstdDecompress' in zlib;

interface Answer {
  readonly status: number | undefined;
  readonly headers: Record<string, unknown>;
  readonly code: string | undefined;
}

/** Sends bytes as they are; in several chunks if `pieces` is above 1. */
function post(
  bytes: Buffer,
  encoding: string,
  { path = '/v1/chat/completions', pieces = 1, url = proxy.url } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${ALICE}`,
      'content-type': 'application/json',
      'content-encoding': encoding,
      ...(pieces === 1 && { 'content-length': bytes.length }),
    };
    const sent = request(url + path, { method: 'POST', headers }, (answer) => {
      let text = '';
      answer.setEncoding('utf8').on('data', (piece: string) => {
        text += piece;
      });
      answer.on('end', () =>
        resolve({
          status: answer.statusCode,
          headers: answer.headers,
          code: JSON.parse(text || '{}').error?.code,
        }),
      );
    });
    sent.on('error', reject);
    const size = Math.ceil(bytes.length / pieces);
    for (let at = 0; at < bytes.length; at += size) sent.write(bytes.subarray(at, at + size));
    sent.end();
  });
}

describe('a request with a coded body', () => {
  it.each([
    ['gzip', gzipSync, 1],
    ['GZIP', gzipSync, 7],
    ['x-gzip', gzipSync, 1],
    ['deflate', deflateSync, 3],
    ['br', brotliCompressSync, 1],
    ['BR', brotliCompressSync, 5],
    ['identity', (bytes: Buffer) => bytes, 1],
  ] as const)('in %s reaches the vendor decoded, byte for byte', async (encoding, encode, pieces) => {
    const body = chat(`weigh ${'this '.repeat(30_000)}`);
    const { status } = await post(encode(Buffer.from(body)), encoding, { pieces });
    expect(status).toBe(200);
    const [received] = vendor.requests;
    expect(received?.body.toString()).toBe(body.replace('mock/echo', 'echo'));
    expect(received?.headers['content-encoding']).toBeUndefined();
    expect(received?.headers['content-length']).toBe(String(received?.body.length));
    expect(settled(proxy.events)).toMatchObject([{ outcome: 'SUCCESS', estimated: false }]);
  });

  it('is what an SDK with a compressing fetch sends', async () => {
    const compressing: typeof fetch = (url, init) => {
      const headers = new Headers(init?.headers);
      headers.set('content-encoding', 'gzip');
      headers.delete('content-length');
      return fetch(url, { ...init, headers, body: gzipSync(String(init?.body)) });
    };
    const openai = new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: ALICE, fetch: compressing });
    expect((await openai.responses.create({ model: 'mock/echo', input: 'weigh' })).output_text).toBe('weigh');
  });

  it.each(['gzip, gzip', 'br, gzip', 'zstd, br', 'identity, br', 'compress', 'gzip;q=1', 'x-br', ''])(
    'in "%s" is 415, which says what is taken',
    async (encoding) => {
      const { status, headers, code } = await post(brotliCompressSync(chat('x')), encoding);
      expect([status, code]).toEqual([415, 'unsupported_media_type']);
      expect(headers['accept-encoding']).toBe([...BODY_ENCODINGS, 'identity'].join(', '));
    },
  );

  it('in zstd is decoded where Node can, and else 415, which says what is taken', async () => {
    const body = chat(`weigh ${'this '.repeat(30_000)}`);
    for (const pieces of [1, 7, 40]) {
      const { status, headers } = await post(zstdFrame(Buffer.from(body)), 'zstd', { pieces });
      if (ZSTD) expect([status, vendor.requests.at(-1)?.body.length]).toEqual([200, body.length - 5]);
      else expect([status, headers['accept-encoding']]).toEqual([415, 'gzip, deflate, br, identity']);
    }
    expect(BODY_ENCODINGS.includes('zstd')).toBe(ZSTD);
  });

  const text = chat('weigh this');
  const damaged = (bytes: Buffer, at = 12): [string, Buffer][] => [
    ['damaged', Buffer.concat([bytes.subarray(0, at), Buffer.from('damage'), bytes.subarray(at + 6)])],
    ['cut off', bytes.subarray(0, -9)],
    ['cut off after its first byte', bytes.subarray(0, 1)],
    ['followed by something else', Buffer.concat([bytes, Buffer.from('{"model":"mock/echo"}')])],
    ['not coded at all', Buffer.from(text)],
    ['coded twice', gzipSync(bytes)],
    ['empty', Buffer.alloc(0)],
  ];
  it.each([
    ...damaged(gzipSync(text)).map((one) => ['gzip', ...one] as const),
    ...damaged(deflateSync(text)).map((one) => ['deflate', ...one] as const),
    ...damaged(brotliCompressSync(text)).map((one) => ['br', ...one] as const),
    ...(ZSTD ? damaged(zstdFrame(Buffer.from(text)), 6).map((one) => ['zstd', ...one] as const) : []),
  ])('in %s that is %s is 400', async (encoding, what, bytes) => {
    // What is under the first coding is no JSON.
    const expected = what === 'coded twice' && encoding === 'gzip' ? 'malformed_json' : 'malformed_encoding';
    for (const pieces of [1, 4]) {
      const { status, code } = await post(bytes, encoding, { pieces });
      expect([status, code]).toEqual([400, expected]);
    }
    expect(vendor.requests).toEqual([]);
  });
});

describe('what a coded body decodes to', () => {
  it('is bounded by the limit of bodies, and by its proportion', async () => {
    const small = await startProxyForTest({ vendorUrl: vendor.url, bodyLimitBytes: 200_000 });
    const url = small.url;
    expect(await post(gzipSync(chat('y'.repeat(210_000))), 'gzip', { url })).toMatchObject({
      status: 413,
      code: 'body_too_large',
    });
    expect((await post(gzipSync(chat('y'.repeat(190_000))), 'gzip', { url })).status).toBe(200);
    // 30 MB in 30 KB.
    for (const pieces of [1, 20]) {
      const bomb = await post(gzipSync(chat('y'.repeat(30_000_000))), 'gzip', { pieces });
      expect(bomb).toMatchObject({ status: 413, code: 'body_too_large' });
    }
    await expect.poll(() => small.memory.usedBytes).toBe(0);
  });

  it.each([
    ['br', brotliCompressSync(chat('y'.repeat(30_000_000)))],
    ['deflate', deflateSync(chat('y'.repeat(30_000_000)))],
    ...(ZSTD ? [['zstd', zstdRun('{', 30_000_000)] as const] : []),
  ] as const)('is bounded by its proportion in %s', async (encoding, bytes) => {
    const fresh = await startProxyForTest({ vendorUrl: vendor.url });
    for (const pieces of [1, 20]) {
      const bomb = await post(bytes, encoding, { pieces, url: fresh.url });
      expect(bomb).toMatchObject({ status: 413, code: 'body_too_large' });
    }
    await expect.poll(() => fresh.memory.usedBytes).toBe(0);
  });

  it('may not refer so far back that a decoder would fill the memory', async () => {
    const little = await startProxyForTest({ vendorUrl: vendor.url, memoryBudgetBytes: 8_000_000 });
    const { url } = little;
    // 16 MiB, which a small body may ask a decoder to keep.
    const far = brotliCompressSync(chat('x'), { params: { [constants.BROTLI_PARAM_LGWIN]: 24 } });
    expect(await post(far, 'br', { url })).toMatchObject({ status: 503, code: 'memory_budget_exhausted' });
    const near = brotliCompressSync(chat('x'), { params: { [constants.BROTLI_PARAM_LGWIN]: 18 } });
    expect((await post(near, 'br', { url })).status).toBe(200);
    if (ZSTD) {
      expect((await post(zstdFrame(Buffer.from(chat('x')), 24), 'zstd')).status).toBe(400);
      expect((await post(zstdFrame(Buffer.from(chat('x')), 23), 'zstd', { url })).status).toBe(503);
      expect((await post(zstdFrame(Buffer.from(chat('x')), 20), 'zstd', { url })).status).toBe(200);
    }
    await expect.poll(() => little.memory.usedBytes).toBe(0);
  });

  it('counts against the memory budget, which gets it back', async () => {
    const little = await startProxyForTest({ vendorUrl: vendor.url, memoryBudgetBytes: 2_000_000 });
    const { url } = little;
    const random = Buffer.from(Array.from({ length: 60_000 }, () => Math.random()).join(''));
    const large = gzipSync(chat(random.toString().repeat(2)));
    expect(large.length).toBeLessThan(1_400_000);
    expect(await post(large, 'gzip', { url })).toMatchObject({
      status: 503,
      code: 'memory_budget_exhausted',
    });
    expect((await post(gzipSync(chat('small')), 'gzip', { url })).status).toBe(200);
    await expect.poll(() => little.memory.usedBytes).toBe(0);
  });

  it('is read by no one after its client left', async () => {
    const { hostname, port } = new URL(proxy.url);
    const sent = request({ hostname, port, path: '/v1/chat/completions', method: 'POST' });
    sent.on('error', () => {});
    sent.setHeader('authorization', `Bearer ${ALICE}`);
    sent.setHeader('content-type', 'application/json');
    sent.setHeader('content-encoding', 'gzip');
    sent.write(gzipSync(chat('x')).subarray(0, 30));
    await new Promise((resolve) => setTimeout(resolve, 100));
    sent.destroy();
    expect((await post(gzipSync(chat('x')), 'gzip')).status).toBe(200);
    expect(vendor.requests).toHaveLength(1);
  });
});
