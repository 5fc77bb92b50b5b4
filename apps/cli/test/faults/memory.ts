import { readFile } from 'node:fs/promises';
import { createServer, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Caller, type Cluster, startCluster } from './cluster.ts';

export const GIGABYTE = 1_000_000_000;
export const MEGABYTE = 1_000_000;
/** The response size of each client that does not read: far more than any buffer on the way. */
const RESPONSE_BYTES = 100 * MEGABYTE;
const READERS_PER_CONNECT_ROUND = 100;
const POLL_MS = 250;

const EVENT = `data: ${JSON.stringify({ id: 'c-1', choices: [{ delta: { content: 'weigh '.repeat(20) } }] })}\n\n`;
const PART = Buffer.from(EVENT.repeat(300));
const END = `data: ${JSON.stringify({ choices: [], usage: { prompt_tokens: 1, completion_tokens: 1 } })}\n\ndata: [DONE]\n\n`;
const BODY = JSON.stringify({ model: 'openai/gpt-4o-mini', stream: true, messages: [] });

/** One that every vendor gets. */
const BYTES = 'x-client-request-id';

/** A proxy in front of a vendor that streams as many bytes as a header says, as fast as they are read. */
export interface StreamedProxy {
  /** Reads a response of this many bytes to its end. */
  readThrough(bytes: number): Promise<{ bytes: number; residentBefore: number; residentMost: number }>;
  /** Opens connections that request a response and read none of it, until all buffers are full. */
  fillReaders(options: FillOptions): Promise<Filled>;
  close(): Promise<void>;
}

interface FillOptions {
  readonly readers: number;
  /** Nothing was sent for this long: all buffers are full. The kernel probes full connections ever more rarely. */
  readonly quietMs: number;
}

interface Filled {
  readonly residentBefore: number;
  readonly residentFilled: number;
  /** Bytes that the vendor sent to all clients. */
  readonly sentBytes: number;
}

export async function startStreamedProxy(): Promise<StreamedProxy> {
  let sentBytes = 0;
  const vendor = createServer((request, response) => {
    request.resume();
    stream(response, Number(request.headers[BYTES]), (bytes) => {
      sentBytes += bytes;
    });
  });
  await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', 4_096, resolve));
  const controlPlane = {
    OPENAI_API_KEY: 'sk-vendor',
    OPENAI_BASE_URL: `http://127.0.0.1:${(vendor.address() as AddressInfo).port}/v1`,
  };
  // Clients that do not read must stay connected until the memory is measured.
  const dataPlane = { UPSTREAM_CHUNK_TIMEOUT_MS: '600000' };
  const cluster = await startCluster({ env: { controlPlane, dataPlane } });
  const caller = await cluster.caller('memory');
  const resident = () => residentBytes(cluster.proxies[0]?.pid);

  return {
    async readThrough(bytes) {
      const residentBefore = await resident();
      let residentMost = residentBefore;
      const timer = setInterval(async () => {
        residentMost = Math.max(residentMost, await resident());
      }, 50);
      try {
        return { bytes: await read(cluster, caller, bytes), residentBefore, residentMost };
      } finally {
        clearInterval(timer);
      }
    },
    async fillReaders({ readers, quietMs }) {
      const sockets: Socket[] = [];
      const residentBefore = await resident();
      sentBytes = 0;
      try {
        while (sockets.length < readers) {
          const opened = Array.from(
            { length: Math.min(READERS_PER_CONNECT_ROUND, readers - sockets.length) },
            () => openReader(cluster, caller),
          );
          sockets.push(...opened.map(({ socket }) => socket));
          // A burst of connections would overflow the backlog of the listener.
          await Promise.all(opened.map(({ connected }) => connected));
        }
        let [sent, quietSince] = [-1, performance.now()];
        while (performance.now() - quietSince < quietMs) {
          if (sent !== sentBytes) [sent, quietSince] = [sentBytes, performance.now()];
          await sleep(POLL_MS);
        }
        return { residentBefore, residentFilled: await resident(), sentBytes };
      } finally {
        for (const socket of sockets) socket.destroy();
      }
    },
    async close() {
      vendor.closeAllConnections();
      vendor.close();
      await cluster.close();
    },
  };
}

/** Streams a response of this many bytes, as fast as it is read. */
function stream(response: ServerResponse, bytes: number, onSent: (bytes: number) => void): void {
  response.writeHead(200, { 'content-type': 'text/event-stream' });
  let left = bytes;
  const go = () => {
    while (left > 0) {
      left -= PART.length;
      onSent(PART.length);
      if (!response.write(PART)) return void response.once('drain', go);
    }
    response.end(END);
  };
  response.on('error', () => {});
  go();
}

/** Reads a response to its end; returns its size in bytes. */
async function read(cluster: Cluster, caller: Caller, bytes: number): Promise<number> {
  const response = await fetch(`${cluster.inferenceUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${caller.key}`,
      'content-type': 'application/json',
      [BYTES]: String(bytes),
    },
    body: BODY,
  });
  if (response.status !== 200) throw new Error(`the proxy answers ${response.status}`);
  let total = 0;
  for await (const part of response.body ?? []) total += part.length;
  return total;
}

function openReader(cluster: Cluster, caller: Caller): { socket: Socket; connected: Promise<void> } {
  const { hostname, port } = new URL(cluster.inferenceUrl);
  const socket = connect({ port: Number(port), host: hostname });
  const connected = new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve);
    socket.on('error', reject);
  });
  socket.pause();
  socket.write(
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${caller.key}\r\ncontent-type: application/json\r\n` +
      `${BYTES}: ${RESPONSE_BYTES}\r\ncontent-length: ${BODY.length}\r\n\r\n${BODY}`,
  );
  return { socket, connected };
}

/** The memory of a process. Linux only. */
async function residentBytes(pid: number | undefined): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

export function inMegabytes(bytes: number): string {
  return `${(bytes / MEGABYTE).toFixed(0)} MB`;
}
