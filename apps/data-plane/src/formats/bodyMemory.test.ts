import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { HttpPool } from '../upstream/http1/httpPool.ts';
import { BodyMemory } from './bodyMemory.ts';
import { RequestBody } from './requestBody.ts';

const SIZE = 1024 * 1024;
const CHUNK = 64 * 1024;
const TIMEOUTS = { connectTimeoutMs: 60_000, firstByteTimeoutMs: 60_000, chunkTimeoutMs: 60_000 };
/** Node 20 can't give memory back. */
const givesBack = 'transfer' in ArrayBuffer.prototype;

function filled(size = SIZE): BodyMemory {
  const memory = new BodyMemory(size);
  for (let at = 0; at < size; at += CHUNK) {
    const chunk = Buffer.allocUnsafeSlow(Math.min(CHUNK, size - at)).fill(at / CHUNK + 32);
    memory.add(chunk);
    expect(chunk.length).toBe(givesBack ? 0 : CHUNK);
  }
  return memory;
}

const isFreed = (memory: BodyMemory) => memory.bytes.length === 0;

it('keeps a view of memory that others have too', () => {
  const shared = Buffer.alloc(CHUNK * 2, 'a');
  const view = shared.subarray(0, CHUNK);
  new BodyMemory(CHUNK).add(view);
  expect(view).toHaveLength(CHUNK);
});

it('takes no chunk after it was given back', () => {
  const memory = new BodyMemory(SIZE);
  memory.free();
  memory.add(Buffer.allocUnsafeSlow(CHUNK));
  expect(isFreed(memory)).toBe(givesBack);
});

it('stays if someone may read it later', () => {
  const memory = filled();
  const kept = new RequestBody([memory.bytes], memory).toBuffer();
  memory.free();
  expect(kept).toHaveLength(SIZE);
});

it('stays if a write was given up', () => {
  const memory = filled();
  for (const piece of new RequestBody([memory.bytes], memory).toWrite()) {
    expect(piece).toHaveLength(SIZE);
    break;
  }
  memory.free();
  expect(isFreed(memory)).toBe(false);
});

it('stays if its last piece does not fill a socket', () => {
  const memory = filled();
  const edited = new RequestBody([memory.bytes], memory).withEdits([
    { span: { start: SIZE - 10, end: SIZE - 5 }, text: 'end' },
  ]);
  expect([...edited.toWrite()].at(-1)).toHaveLength(5);
  memory.free();
  expect(isFreed(memory)).toBe(false);
});

describe('sent by the HTTP client', () => {
  let server: Server | undefined;
  let pool: HttpPool | undefined;
  afterEach(async () => {
    pool?.destroy();
    server?.close();
  });

  /** Sends an edited body; resolves with the status once the answer is complete. */
  async function send(onConnection: (socket: Socket) => void, memory: BodyMemory): Promise<number> {
    server = createServer(onConnection).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const connections = new HttpPool(url, TIMEOUTS);
    pool = connections;
    const body = new RequestBody([memory.bytes], memory).withEdits([
      { span: { start: 8, end: 9 }, text: '<edited>' },
    ]);
    expect(body.pieces[0]).toHaveLength(16);
    return await new Promise((resolve, reject) => {
      let answered = 0;
      connections.send(
        { method: 'POST', path: '/', headers: [], body },
        {
          onRequestStart() {},
          onResponseStart(_controller, status) {
            answered = status;
          },
          onResponseData() {},
          onResponseEnd: () => resolve(answered),
          onResponseError: (_controller, error) => reject(error),
        },
      );
    });
  }

  const ANSWER = 'HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}';
  const EDITED = SIZE + 7;

  it('is given back once the vendor has all of it', async () => {
    const memory = filled();
    const status = await send((socket) => {
      let received = 0;
      socket.on('data', (bytes) => {
        const headEnd = bytes.indexOf('\r\n\r\n');
        received += bytes.length - (headEnd < 0 ? 0 : headEnd + 4);
        if (received === EDITED) socket.write(ANSWER);
      });
    }, memory);
    expect(status).toBe(200);
    memory.free();
    expect(isFreed(memory)).toBe(givesBack);
  });

  it('stays while the system still writes it, though the vendor has answered', async () => {
    const size = 16 * SIZE;
    const memory = filled(size);
    const expected = Buffer.from(memory.bytes);
    const received: Buffer[] = [];
    const sockets: Socket[] = [];
    await send((socket) => {
      sockets.push(socket);
      socket.once('readable', () => socket.write(ANSWER));
    }, memory);
    memory.free();
    expect(isFreed(memory)).toBe(false);
    // The client may close the connection; what came before is right.
    for (const socket of sockets) {
      socket.on('data', (bytes) => received.push(bytes)).on('error', () => {});
      await once(socket, 'close');
    }
    const whole = Buffer.concat(received);
    const start = whole.indexOf('\r\n\r\n') + 4;
    expect(whole.length).toBeGreaterThan(CHUNK);
    expect(whole.subarray(start + 16).equals(expected.subarray(9, 9 + whole.length - start - 16))).toBe(true);
  });
});
