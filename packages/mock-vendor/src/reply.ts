import type { ServerResponse } from 'node:http';
import type { Behaviour } from './behaviour.ts';
import { brotliEncoder, deflateEncoder, type Encoder, gzipEncoder, identityEncoder } from './encoder.ts';
import { AnswerOver, pause, untilGone, whilePresent } from './peer.ts';

/**
 * The answer to one request, misbehaving as the request asked. Every method throws `AnswerOver` once the peer
 * is gone, or the answer was broken off.
 */
export interface Reply {
  /** The time before the first byte; here `reset before` breaks off. */
  hold(): Promise<void>;
  /** Sends the status and the headers; here `reset headers` breaks off. */
  start(status: number, headers: Record<string, string>): Promise<void>;
  /** Sends a part of the body, and waits until the peer's socket took it. */
  write(text: string): Promise<void>;
  /** The middle of the body: breaks off here if `reset mid` or `stall mid` says so. */
  middle(): Promise<void>;
  end(): Promise<void>;
  /** A whole answer in JSON. */
  json(status: number, value: unknown, headers?: Record<string, string>): Promise<void>;
}

/** What a reply needs to know of its request. */
export interface ReplyContext {
  readonly requestId: string;
  readonly startedAtMs: number;
  readonly gone: AbortSignal;
}

const ENCODERS = {
  identity: identityEncoder,
  gzip: gzipEncoder,
  deflate: deflateEncoder,
  br: brotliEncoder,
};

export function createReply(response: ServerResponse, context: ReplyContext, behaviour: Behaviour): Reply {
  const { gone } = context;
  const { interruption, splitBytes } = behaviour;
  const encoder: Encoder = ENCODERS[behaviour.encoding ?? 'identity']();
  // With x-mock-split: less than a piece, kept until the next bytes fill it.
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
    // The callback, not 'drain': it comes when the socket took the bytes, so a slow reader slows the work.
    await whilePresent(gone, (done) => {
      response.write(bytes, () => done());
    });
  }

  function reset(): never {
    response.socket?.destroy();
    throw new AnswerOver();
  }

  const reply: Reply = {
    async hold() {
      await pause(behaviour.delayMs, gone);
      if (interruption === 'reset before') reset();
    },

    async start(status, headers) {
      gone.throwIfAborted();
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
      // An empty write calls back once the headers before it are out.
      await whilePresent(gone, (done) => {
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
      await untilGone(gone);
    },

    async end() {
      await send(encoder.finish());
      await flush();
      await whilePresent(gone, (done) => {
        response.end(done);
      });
    },

    async json(status, value, headers = {}) {
      const bytes = Buffer.from(JSON.stringify(value));
      const half = bytes.length >> 1;
      // Without a length the body goes in HTTP chunks, and so the pieces of x-mock-split survive the network.
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
