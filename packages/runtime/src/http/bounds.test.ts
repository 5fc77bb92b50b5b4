import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { dial, serve } from '../../test/servedHttp.ts';
import { MAX_PIPELINED } from './connections.ts';
import { HeldHeads } from './heldHeads.ts';

const get = (path: string, headers = '') => `GET ${path} HTTP/1.1\r\nhost: x\r\n${headers}\r\n`;
const headOf = (bytes: number) => `x-long: ${'a'.repeat(bytes)}\r\n`;

describe('requests that a client sends ahead of the answers', () => {
  it('are answered in order, up to a number', async () => {
    const held: ServerResponse[] = [];
    await serve((_request, response) => void held.push(response));
    const { socket, text } = await dial();
    socket.write(Array.from({ length: MAX_PIPELINED }, (_, at) => get(`/${at}`)).join(''));
    await expect.poll(() => held.length).toBe(MAX_PIPELINED);
    for (const response of held.toReversed()) response.end(`<${response.req.url}>`);
    const paths = () => [...text().matchAll(/<\/(\d+)>/g)].map(([, at]) => Number(at));
    await expect.poll(paths).toEqual(Array.from({ length: MAX_PIPELINED }, (_, at) => at));
    // Those are answered: there is room again.
    socket.write(get('/again'));
    await expect.poll(() => held.length).toBe(MAX_PIPELINED + 1);
    socket.destroy();
  });

  it('beyond it, end the connection, and none of the rest is handled', async () => {
    let handled = 0;
    const closed: string[] = [];
    await serve((request, response) => {
      handled++;
      response.on('close', () => closed.push(String(request.url)));
    });
    const client = await dial();
    client.socket.write(Array.from({ length: 2_000 }, (_, at) => get(`/${at}`)).join(''));
    await client.closed;
    expect(client.text()).toBe('');
    await expect.poll(() => closed.length).toBe(MAX_PIPELINED);
    expect(handled).toBe(MAX_PIPELINED);
  });
});

describe('the heads of requests', () => {
  it('have room together until they are answered; large ones take half of it', async () => {
    const held: ServerResponse[] = [];
    await serve((_request, response) => void held.push(response), { maxHeadBytes: 100_000 });
    const clients = [await dial(), await dial(), await dial(), await dial()];
    const [first, second, third] = clients as [(typeof clients)[0], (typeof clients)[0], (typeof clients)[0]];
    first.socket.write(get('/', headOf(40_000)));
    await expect.poll(() => held.length).toBe(1);
    second.socket.write(get('/', headOf(40_000)));
    await second.closed;
    expect(second.text()).toMatch(/^HTTP\/1.1 503 .*retry-after: 1.*memory_budget_exhausted/s);
    // Usual ones still fit.
    third.socket.write(get('/', headOf(10_000)));
    await expect.poll(() => held.length).toBe(2);
    for (const response of held.splice(0)) response.end('ok');
    await expect.poll(() => first.text()).toContain('ok');
    first.socket.write(get('/', headOf(40_000)));
    await expect.poll(() => held.length).toBe(1);
    for (const { socket } of clients) socket.destroy();
  });

  it('that never end are cut once they take too much together, the large ones only', async () => {
    await serve((_request, response) => void response.end('ok'), { maxHeadBytes: 100_000 });
    const usual = await dial();
    usual.socket.write('GET / HTTP/1.1\r\nhost: x\r\n');
    const large = await Promise.all([dial(), dial(), dial()]);
    for (const { socket } of large) socket.write(`GET / HTTP/1.1\r\nx-long: ${'a'.repeat(60_000)}`);
    await expect.poll(() => large.filter(({ socket }) => socket.closed).length).toBe(2);
    usual.socket.write('\r\n');
    await expect.poll(() => usual.text()).toContain('ok');
    for (const { socket } of [usual, ...large]) socket.destroy();
  });

  it('are given back', () => {
    const heads = new HeldHeads(1_000);
    const request = { rawHeaders: ['host', 'x'.repeat(395)], url: '/' } as never;
    const taken = [heads.take(request), heads.take(request), heads.take(request)];
    expect(taken).toEqual([400, 400, undefined]);
    heads.giveBack(400);
    expect(heads.take(request)).toBe(400);
  });
});

describe('a client that ends its side', () => {
  /** A stream that has begun, whose client then ended its side and was asked within it whether it is still there. */
  async function halfClosedStream() {
    let stream: ServerResponse | undefined;
    await serve((_request, response) => {
      stream = response;
      response.write('part');
    });
    const client = await dial();
    client.socket.write(get('/'));
    await expect.poll(() => client.text()).toContain('part');
    await sleep(50);
    client.socket.end();
    await expect.poll(() => client.text()).toMatch(/part\r\n0$/);
    return { client, stream };
  }

  it('is told by a reset of a stream that breaks off, where it was asked within one', async () => {
    const { client, stream } = await halfClosedStream();
    stream?.destroy();
    await client.closed;
    expect(client.error()?.code).toBe('ECONNRESET');
  });

  it('gets the rest of a stream as it is, where it was asked within one', async () => {
    const { client, stream } = await halfClosedStream();
    stream?.end('whole');
    await client.closed;
    expect(client.text()).toMatch(/4\r\npart\r\n0+5\r\nwhole\r\n0+\r\n\r\n$/);
    expect(client.error()).toBeUndefined();
  });
});
