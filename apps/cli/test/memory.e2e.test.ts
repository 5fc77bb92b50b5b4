import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { createServer, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createTestDatabase, freePort, startNats } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manage, type Service } from './mainJob.ts';
import { type RunningProcess, startApp } from './processes.ts';

const GIGABYTE = 1_000_000_000;
const MEGABYTE = 1_000_000;
const READERS = 5_000;
const ANSWER_BYTES = 100 * MEGABYTE;

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let nats: Awaited<ReturnType<typeof startNats>>;
let vendor: Server;
let folder: string;
let service: Service;
let proxy: RunningProcess;
let key: string;
let sentBytes = 0;
const running: RunningProcess[] = [];

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
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  vendor = createServer((request, response) => {
    request.resume();
    stream(response, Number(request.headers['x-bytes']));
  });
  await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', 4_096, resolve));
  [database, nats] = await Promise.all([createTestDatabase(), startNats()]);
  const ports: number[] = [];
  for (let at = 0; at < 4; at++) ports.push(await freePort());
  const [api = 0, grpc = 0, inference = 0, health = 0] = ports;
  const [DATABASE_URL, NATS_URL] = [database.url, nats.url];
  const OPERATOR_KEY_FILE = join(folder, 'operator-key');
  const controlPlane = {
    DATABASE_URL,
    OPERATOR_KEY_FILE,
    OPENAI_API_KEY: 'sk-vendor',
    OPENAI_BASE_URL: `http://127.0.0.1:${(vendor.address() as AddressInfo).port}/v1`,
    PORT: String(api),
    GRPC_PORT: String(grpc),
  };
  running.push(
    await startApp('control-plane', controlPlane, /is ready/),
    await startApp('metering', { DATABASE_URL, NATS_URL, PORT: String(health) }, /is ready/),
  );
  proxy = await startApp(
    'data-plane',
    { NATS_URL, CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`, PORT: String(inference) },
    /is ready/,
  );
  running.push(proxy);
  const operatorKey = (await readFile(OPERATOR_KEY_FILE, 'utf8')).trim();
  service = {
    managementUrl: `http://127.0.0.1:${api}`,
    inferenceUrl: `http://127.0.0.1:${inference}`,
    operatorKey,
  };
  const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'memory' } });
  key = String(body.key);
});
afterAll(async () => {
  vendor?.closeAllConnections();
  vendor?.close();
  // The proxy has thousands of answers to drain, which is not what is asked here.
  await proxy?.stop('SIGKILL');
  for (const one of running.reverse()) await one.stop('SIGTERM', 40_000);
  await nats?.stop();
  await database?.drop();
  await rm(folder, { recursive: true, force: true });
}, 120_000);

/** What the proxy occupies, in bytes. */
async function residentBytes(): Promise<number> {
  const status = await readFile(`/proc/${proxy.pid}/status`, 'utf8');
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
    const { hostname, port } = new URL(service.inferenceUrl);
    const before = await residentBytes();
    sentBytes = 0;
    for (let at = 0; at < READERS; at++) {
      const socket = connect({ port: Number(port), host: hostname });
      socket.on('error', () => {});
      socket.pause();
      socket.write(
        `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${key}\r\ncontent-type: application/json\r\nx-bytes: ${ANSWER_BYTES}\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
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
  const answer = await fetch(`${service.inferenceUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${key}`,
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
