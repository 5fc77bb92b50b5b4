import { readFile } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';

const GIGABYTE = 1_000_000_000;
const MEGABYTE = 1_000_000;
const READERS = 5_000;
const ANSWER_BYTES = 100 * MEGABYTE;

let cluster: Cluster;
let caller: Caller;
let vendor: Server;
let sentBytes = 0;

const EVENT = `data: ${JSON.stringify({ id: 'c-1', choices: [{ delta: { content: 'weigh '.repeat(20) } }] })}\n\n`;
const PART = Buffer.from(EVENT.repeat(300));
const END = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } })}\n\ndata: [DONE]\n\n`;

/** Streams so many bytes, as fast as they are read. */
function stream(response: ServerResponse, bytes: number): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  let left = bytes;
  const go = () => {
    while (left > 0) {
      left -= PART.length;
      sentBytes += PART.length;
      if (!response.write(PART)) return void response.once('drain', go);
    }
    response.end(END);
  };
  response.on('error', () => {});
  go();
}

beforeAll(async () => {
  vendor = createServer((request, response) => {
    request.resume();
    stream(response, Number(request.headers['x-bytes']));
  });
  await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', 4_096, resolve));
  const controlPlane = {
    OPENAI_API_KEY: 'sk-vendor',
    OPENAI_BASE_URL: `http://127.0.0.1:${(vendor.address() as AddressInfo).port}/v1`,
  };
  // Those that do not read are to stay for as long as it takes to look at them.
  const dataPlane = { UPSTREAM_CHUNK_TIMEOUT_MS: '600000' };
  cluster = await startCluster({ env: { controlPlane, dataPlane } });
  caller = await cluster.caller('memory');
}, 120_000);
afterAll(async () => {
  vendor?.closeAllConnections();
  vendor?.close();
  await cluster?.close();
}, 120_000);

/** What the proxy occupies, in bytes. */
async function residentBytes(): Promise<number> {
  const status = await readFile(`/proc/${cluster.proxies[0]?.pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

const BODY = JSON.stringify({ model: 'openai/gpt-4o-mini', stream: true, messages: [] });

/** Linux alone tells what another process occupies. */
describe.runIf(process.platform === 'linux')('the memory of a proxy', () => {
  it('stays flat while a gigabyte goes through one connection', async () => {
    await readThrough(20 * MEGABYTE);
    const before = await residentBytes();
    let most = before;
    const timer = setInterval(() => {
      void residentBytes().then((now) => {
        most = Math.max(most, now);
      });
    }, 50);
    const began = performance.now();
    const bytes = await readThrough(GIGABYTE);
    clearInterval(timer);
    const seconds = (performance.now() - began) / 1_000;
    expect(bytes).toBeGreaterThanOrEqual(GIGABYTE);
    tell(`1 GB in ${seconds.toFixed(1)} s: ${mb(before)} before, ${mb(most)} at most`);
    expect(most - before).toBeLessThan(100 * MEGABYTE);
  }, 120_000);

  it(`stays flat with ${READERS} readers that do not read`, async () => {
    const sockets: Socket[] = [];
    const { hostname, port } = new URL(cluster.inferenceUrl);
    const before = await residentBytes();
    sentBytes = 0;
    for (let at = 0; at < READERS; at++) {
      const socket = connect({ port: Number(port), host: hostname });
      socket.on('error', () => {});
      socket.pause();
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${caller.key}\r\ncontent-type: application/json\r\nx-bytes: ${ANSWER_BYTES}\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
      );
      sockets.push(socket);
      if (at % 100 === 99) await sleep(50);
    }
    await untilNothingMoves();
    const filled = await residentBytes();
    const each = (filled - before) / READERS / 1024;
    tell(
      `${READERS} readers that do not read: ${mb(before)} before, ${mb(filled)} filled, ${each.toFixed(0)} KiB each; ` +
        `of ${mb(READERS * ANSWER_BYTES)} the vendor sent ${mb(sentBytes)}`,
    );
    // A few reads' worth, however much more there is to send; the rest of what was sent is in the kernel's buffers.
    expect(each).toBeLessThan(256);
    expect(sentBytes / READERS).toBeLessThan(2 * MEGABYTE);
    for (const socket of sockets) socket.destroy();
  }, 180_000);
});

/** Reads an answer of so many bytes to its end; returns how many there were. */
async function readThrough(bytes: number): Promise<number> {
  const answer = await fetch(`${cluster.inferenceUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${caller.key}`,
      'content-type': 'application/json',
      'x-bytes': String(bytes),
    },
    body: BODY,
  });
  expect(answer.status).toBe(200);
  let read = 0;
  for await (const part of answer.body ?? []) read += part.length;
  return read;
}

/** Waits until everybody has what fits. The kernel probes full connections ever more rarely, so for a while. */
async function untilNothingMoves(): Promise<void> {
  let sent = -1;
  for (let still = 0; still < 4; await sleep(3_000)) {
    still = sentBytes === sent ? still + 1 : 0;
    sent = sentBytes;
  }
}

function mb(bytes: number): string {
  return `${(bytes / MEGABYTE).toFixed(0)} MB`;
}

function tell(line: string): void {
  process.stdout.write(`${line}\n`);
}
