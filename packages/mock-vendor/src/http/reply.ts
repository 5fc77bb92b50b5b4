import type { ServerResponse } from 'node:http';
import type { Behaviour } from '../shared/behaviour.ts';
import { pause, ReplyAborted, untilDisconnected, waitWhileConnected } from './disconnect.ts';
import { brotliEncoder, deflateEncoder, type Encoder, gzipEncoder, identityEncoder } from './encoder.ts';

/**
 * The reply to one request, which misbehaves as the request asked. Every method throws `ReplyAborted` after the client has
 * disconnected or the reply was interrupted.
 */
export interface Reply {
  /** Waits before the first byte. `reset before` interrupts here. */
  hold(): Promise<void>;
  /** Sends the status and the headers. `reset headers` interrupts after them. */
  start(status: number, headers: Record<string, string>): Promise<void>;
  /** Sends a part of the body, and waits until it is written to the socket. */
  write(text: string): Promise<void>;
  /** Call it in the middle of the body: `reset mid` and `stall mid` interrupt here. */
  middle(): Promise<void>;
  end(): Promise<void>;
  /** Sends a complete JSON response. */
  json(status: number, value: unknown, headers?: Record<string, string>): Promise<void>;
}

export interface ReplyContext {
  readonly requestId: string;
  readonly startedAtMs: number;
  readonly disconnected: AbortSignal;
}

const ENCODERS = {
  identity: identityEncoder,
  gzip: gzipEncoder,
  deflate: deflateEncoder,
  br: brotliEncoder,
};

export function createReply(response: ServerResponse, context: ReplyContext, behaviour: Behaviour): Reply {
  const { disconnected } = context;
  const { interruption, splitBytes } = behaviour;
  const encoder: Encoder = ENCODERS[behaviour.encoding ?? 'identity']();
  // With x-mock-split: an incomplete piece, until the next bytes fill it.
  let held: Buffer = Buffer.alloc(0);

  async function send(bytes: Buffer): Promise<void> {
    if (splitBytes === undefined) return put(bytes);
    held = Buffer.concat([held, bytes]);
    let at = 0;
    for (; held.length - at >= splitBytes; at += splitBytes) await put(held.subarray(at, at + splitBytes));
    held = held.subarray(at);
  }

  async function flush(): Promise<void> {
    const rest = held;
    held = Buffer.alloc(0);
    await put(rest);
  }

  async function put(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return;
    // The callback, not 'drain': it comes when the bytes are written, so a slow reader slows the generation.
    await waitWhileConnected(disconnected, (done) => {
      response.write(bytes, () => done());
    });
  }

  function reset(): never {
    response.socket?.destroy();
    throw new ReplyAborted();
  }

  const reply: Reply = {
    async hold() {
      await pause(behaviour.delayMs, disconnected);
      if (interruption === 'reset before') reset();
    },

    async start(status, headers) {
      disconnected.throwIfAborted();
      response.writeHead(status, {
        ...headers,
        ...(behaviour.contentType !== undefined && { 'content-type': behaviour.contentType }),
        ...(behaviour.encoding && { 'content-encoding': behaviour.encoding }),
        'x-request-id': context.requestId,
        'openai-processing-ms': String(Math.round(performance.now() - context.startedAtMs)),
        'openai-version': '2020-10-01',
      });
      response.flushHeaders();
      if (interruption !== 'reset headers') return;
      // An empty write calls back after the headers are sent.
      await waitWhileConnected(disconnected, (done) => {
        response.socket?.write('', () => done());
      });
      reset();
    },

    async write(text) {
      await send(encoder.push(Buffer.from(text)));
    },

    async middle() {
      if (interruption !== 'reset mid' && interruption !== 'stall mid') return;
      await flush();
      if (interruption === 'reset mid') reset();
      await untilDisconnected(disconnected);
    },

    async end() {
      await send(encoder.finish());
      await flush();
      await waitWhileConnected(disconnected, (done) => {
        response.end(done);
      });
    },

    async json(status, value, headers = {}) {
      const bytes = Buffer.from(JSON.stringify(value));
      const half = bytes.length >> 1;
      // Without a length, the body is sent in HTTP chunks, which are the pieces of x-mock-split.
      const sized = behaviour.encoding === undefined && splitBytes === undefined;
      await reply.start(status, {
        'content-type': 'application/json',
        ...(sized && { 'content-length': String(bytes.length) }),
        ...headers,
      });
      await send(encoder.push(bytes.subarray(0, half)));
      await reply.middle();
      await send(encoder.push(bytes.subarray(half)));
      await reply.end();
    },
  };
  return reply;
}
