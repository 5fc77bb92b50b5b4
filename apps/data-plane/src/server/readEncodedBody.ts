import type { IncomingMessage } from 'node:http';
import { ChunkList } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { bodyTooLarge } from '@weighbridge/runtime';
import { RequestBody } from '../formats/requestBody.ts';
import { type BodyDecoder, type BodyEncoding, bodyDecoder } from './bodyDecoders.ts';
import type { BodyLimits } from './readBody.ts';

/** Memory for what a body decodes to is taken in steps of this size. */
const STEP_BYTES = 64 * 1024;
/** A body that decodes to more than this, and to more than this ratio, is made to fill memory. JSON stays far below. */
const ANY_RATIO_BYTES = 1024 * 1024;
const MAX_RATIO = 200;

/**
 * Reads an encoded body for which `takeBodyMemory` was called, and decodes it as it comes. Resolves with undefined if the client
 * disconnects before its end; rejects with a 413 if it decodes to more than the limit or out of proportion, a 503 if memory is
 * short, and a 400 if it is damaged.
 */
export function readEncodedBody(
  request: IncomingMessage,
  encoding: BodyEncoding,
  limits: BodyLimits,
): Promise<RequestBody | undefined> {
  return new Promise((resolve, reject) =>
    new EncodedBody(request, encoding, limits, resolve, reject).start(),
  );
}

class EncodedBody {
  readonly #request: IncomingMessage;
  readonly #encoding: BodyEncoding;
  readonly #limits: BodyLimits;
  readonly #resolve: (body: RequestBody | undefined) => void;
  readonly #reject: (error: unknown) => void;
  /** Undefined before the first byte. */
  #decoder: BodyDecoder | undefined;
  readonly #decoded = new ChunkList();
  #encodedBytes = 0;
  /** Of the memory: what the head announced is taken already. */
  #takenBytes: number;
  #isOver = false;

  constructor(
    request: IncomingMessage,
    encoding: BodyEncoding,
    limits: BodyLimits,
    resolve: (body: RequestBody | undefined) => void,
    reject: (error: unknown) => void,
  ) {
    this.#request = request;
    this.#encoding = encoding;
    this.#limits = limits;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#takenBytes = Number(request.headers['content-length'] ?? 0);
  }

  start(): void {
    const request = this.#request;
    if (request.destroyed && !request.complete) return void this.#onGone();
    request.on('data', this.#onEncoded);
    request.on('end', this.#onEncodedEnd);
    request.on('error', this.#onGone);
    request.on('close', this.#onGone);
  }

  readonly #onEncoded = (chunk: Buffer): void => {
    if (this.#isOver) return;
    this.#encodedBytes += chunk.length;
    if (this.#encodedBytes > this.#limits.limitBytes)
      return void this.#fail(bodyTooLarge(this.#limits.limitBytes));
    try {
      const { stream } = this.#decoder ?? this.#open(chunk);
      if (!stream.write(chunk)) this.#request.pause();
    } catch (error) {
      this.#fail(error);
    }
  };

  #open(start: Buffer): BodyDecoder {
    const decoder = bodyDecoder(this.#encoding, start);
    this.#decoder = decoder;
    this.#take(decoder.bytes);
    decoder.stream.on('data', this.#onDecoded);
    decoder.stream.on('drain', () => this.#request.resume());
    decoder.stream.on('end', this.#onDecodedEnd);
    decoder.stream.on('error', () => this.#fail(notDecodable(this.#encoding)));
    return decoder;
  }

  readonly #onEncodedEnd = (): void => {
    if (this.#isOver) return;
    if (this.#decoder) this.#decoder.stream.end();
    else this.#fail(notDecodable(this.#encoding));
  };

  readonly #onDecoded = (bytes: Buffer): void => {
    if (this.#isOver) return;
    const { limitBytes } = this.#limits;
    const total = this.#decoded.length + bytes.length;
    if (total > limitBytes) return void this.#fail(bodyTooLarge(limitBytes));
    if (total > ANY_RATIO_BYTES + this.#encodedBytes * MAX_RATIO) return void this.#fail(outOfProportion());
    try {
      this.#take((this.#decoder?.bytes ?? 0) + total);
    } catch (error) {
      return void this.#fail(error);
    }
    this.#decoded.add(bytes);
  };

  /** Before the last byte came, only bytes after the coded body end it. */
  readonly #onDecodedEnd = (): void => {
    if (this.#isOver) return;
    if (!this.#decoder?.stream.writableFinished) return void this.#fail(notDecodable(this.#encoding));
    this.#end();
    this.#keep(this.#decoded.length);
    this.#resolve(new RequestBody(this.#decoded.chunks));
  };

  readonly #onGone = (): void => {
    if (this.#isOver || this.#request.complete) return;
    this.#end();
    this.#decoded.clear();
    this.#resolve(undefined);
  };

  #take(bytes: number): void {
    if (bytes <= this.#takenBytes) return;
    const { memory, principalId } = this.#limits;
    const taken = Math.ceil(bytes / STEP_BYTES) * STEP_BYTES;
    memory.takeBody(taken - this.#takenBytes, taken, principalId);
    this.#takenBytes = taken;
  }

  /** Gives back what the decoder took. */
  #keep(bytes: number): void {
    const kept = Math.ceil(bytes / STEP_BYTES) * STEP_BYTES;
    if (kept < this.#takenBytes) this.#limits.memory.release(this.#takenBytes - kept);
  }

  #fail(error: unknown): void {
    if (this.#isOver) return;
    this.#end();
    this.#decoded.clear();
    this.#request.off('data', this.#onEncoded).pause();
    this.#reject(error);
  }

  #end(): void {
    this.#isOver = true;
    this.#decoder?.stream.destroy();
  }
}

function notDecodable(encoding: BodyEncoding): AppError {
  const message = `The body is not valid ${encoding}, as its header "Content-Encoding" says. Send it whole, or without that header.`;
  return new AppError('invalid_request', 'malformed_encoding', message, { param: 'content-encoding' });
}

function outOfProportion(): AppError {
  const message = `The body decodes to more than ${MAX_RATIO} times its size. Send it without "Content-Encoding".`;
  return new AppError('too_large', 'body_too_large', message, { param: 'content-encoding' });
}
