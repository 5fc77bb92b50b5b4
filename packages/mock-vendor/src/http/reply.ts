import type { ServerResponse } from 'node:http';
import type { Behaviour } from '../shared/behaviour.ts';
import { pause, ReplyAborted, untilDisconnected, waitWhileConnected } from './disconnect.ts';
import { brotliEncoder, deflateEncoder, type Encoder, gzipEncoder, identityEncoder } from './encoder.ts';
import { padded } from './padding.ts';

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
  /** Sends a server-sent event, with the padding of x-mock-pad-bytes. */
  writeEvent(name: string, data: object): Promise<void>;
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
  return new MisbehavingReply(response, context, behaviour);
}

class MisbehavingReply implements Reply {
  readonly #response: ServerResponse;
  readonly #context: ReplyContext;
  readonly #behaviour: Behaviour;
  readonly #encoder: Encoder;
  /** With x-mock-split: an incomplete piece, until the next bytes fill it. */
  #incomplete: Buffer = Buffer.alloc(0);

  constructor(response: ServerResponse, context: ReplyContext, behaviour: Behaviour) {
    this.#response = response;
    this.#context = context;
    this.#behaviour = behaviour;
    this.#encoder = ENCODERS[behaviour.encoding ?? 'identity']();
  }

  async hold(): Promise<void> {
    await pause(this.#behaviour.delayMs, this.#context.disconnected);
    if (this.#behaviour.interruption === 'reset before') this.#reset();
  }

  async start(status: number, headers: Record<string, string>): Promise<void> {
    const { disconnected, requestId, startedAtMs } = this.#context;
    const { contentType, encoding, interruption } = this.#behaviour;
    disconnected.throwIfAborted();
    this.#response.writeHead(status, {
      ...headers,
      ...(contentType !== undefined && { 'content-type': contentType }),
      ...(encoding && { 'content-encoding': encoding }),
      'x-request-id': requestId,
      'openai-processing-ms': String(Math.round(performance.now() - startedAtMs)),
      'openai-version': '2020-10-01',
    });
    this.#response.flushHeaders();
    if (interruption !== 'reset headers') return;
    // An empty write calls back after the headers are sent.
    await waitWhileConnected(disconnected, (done) => {
      this.#response.socket?.write('', () => done());
    });
    this.#reset();
  }

  async write(text: string): Promise<void> {
    await this.#send(this.#encoder.push(Buffer.from(text)));
  }

  async writeEvent(name: string, data: object): Promise<void> {
    if (name !== '') await this.write(`event: ${name}\n`);
    await this.write('data: ');
    for (const piece of padded(data, this.#behaviour, 'data: '))
      await this.#send(this.#encoder.push(Buffer.from(piece)));
    await this.write('\n\n');
  }

  async middle(): Promise<void> {
    const { interruption } = this.#behaviour;
    if (interruption !== 'reset mid' && interruption !== 'stall mid') return;
    await this.#flush();
    if (interruption === 'reset mid') this.#reset();
    await untilDisconnected(this.#context.disconnected);
  }

  async end(): Promise<void> {
    await this.#send(this.#encoder.finish());
    await this.#flush();
    await waitWhileConnected(this.#context.disconnected, (done) => {
      this.#response.end(done);
    });
  }

  async json(status: number, value: unknown, headers: Record<string, string> = {}): Promise<void> {
    const { encoding, splitBytes, paddingBytes } = this.#behaviour;
    if (paddingBytes > 0) return this.#paddedJson(status, value, headers);
    const bytes = Buffer.from(JSON.stringify(value));
    const half = bytes.length >> 1;
    // Without a length, the body is sent in HTTP chunks, which are the pieces of x-mock-split.
    const isSized = encoding === undefined && splitBytes === undefined;
    await this.start(status, {
      'content-type': 'application/json',
      ...(isSized && { 'content-length': String(bytes.length) }),
      ...headers,
    });
    await this.#send(this.#encoder.push(bytes.subarray(0, half)));
    await this.middle();
    await this.#send(this.#encoder.push(bytes.subarray(half)));
    await this.end();
  }

  async #paddedJson(status: number, value: unknown, headers: Record<string, string>): Promise<void> {
    await this.start(status, { 'content-type': 'application/json', ...headers });
    for (const piece of padded(value as object, this.#behaviour)) {
      await this.#send(this.#encoder.push(Buffer.from(piece)));
    }
    await this.end();
  }

  async #send(bytes: Buffer): Promise<void> {
    const { splitBytes } = this.#behaviour;
    if (splitBytes === undefined) return this.#put(bytes);
    const all = Buffer.concat([this.#incomplete, bytes]);
    let at = 0;
    for (; all.length - at >= splitBytes; at += splitBytes)
      await this.#put(all.subarray(at, at + splitBytes));
    this.#incomplete = all.subarray(at);
  }

  async #flush(): Promise<void> {
    const rest = this.#incomplete;
    this.#incomplete = Buffer.alloc(0);
    await this.#put(rest);
  }

  async #put(bytes: Buffer): Promise<void> {
    if (bytes.length === 0) return;
    // The callback, not 'drain': it comes when the bytes are written, so a slow reader slows the generation.
    await waitWhileConnected(this.#context.disconnected, (done) => {
      this.#response.write(bytes, () => done());
    });
  }

  #reset(): never {
    this.#response.socket?.destroy();
    throw new ReplyAborted();
  }
}
