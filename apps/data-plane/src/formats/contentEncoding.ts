import { promisify } from 'node:util';
import {
  type BrotliDecompress,
  brotliDecompress,
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  type Gunzip,
  gunzip,
  type Inflate,
  inflate,
} from 'node:zlib';
import { AppError } from '@weighbridge/errors';
import type { HeldMemory } from '../shared/memoryBudget.ts';

const NOTHING = Buffer.alloc(0);

/** The content encodings (RFC 9110, section 8.4.1) that this service can decode. */
const DECODABLE = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'identity']);

/** The `accept-encoding` for the vendor: what the client accepts and this service can decode. */
export function decodableEncodings(acceptEncoding: string | string[] | undefined): string {
  if (acceptEncoding === undefined) return 'identity';
  const accepted = String(acceptEncoding);
  const cached = decodableOf.get(accepted);
  if (cached !== undefined) return cached;
  const decodable = filterDecodable(accepted);
  if (decodableOf.size < MAX_CACHED) decodableOf.set(accepted, decodable);
  return decodable;
}

/** By `accept-encoding`. Few values are common, but a client may send any. */
const decodableOf = new Map<string, string>();
const MAX_CACHED = 64;

function filterDecodable(acceptEncoding: string): string {
  const decodable = acceptEncoding
    .split(',')
    .map((one) => one.trim())
    .filter((one) => DECODABLE.has((one.split(';')[0] ?? '').trim().toLowerCase()));
  return decodable.join(', ') || 'identity';
}

export type Encoding = 'gzip' | 'deflate' | 'br';

/** The encoding of a response: undefined if it is plain, `unknown` if this service cannot decode it. */
export function encodingOf(contentEncoding: unknown): Encoding | 'unknown' | undefined {
  const name = String(contentEncoding ?? '')
    .trim()
    .toLowerCase();
  if (name === '' || name === 'identity') return undefined;
  if (name === 'gzip' || name === 'x-gzip') return 'gzip';
  return name === 'deflate' || name === 'br' ? name : 'unknown';
}

/** Whether a response is encoded, and can be decoded. */
export function isSupported(encoding: Encoding | 'unknown' | undefined): encoding is Encoding {
  return encoding !== undefined && encoding !== 'unknown';
}

/** For a response that must be read before the client gets it. */
export function undecodable(): AppError {
  const message =
    'The response of the vendor could not be decompressed: it is damaged, too large, in an encoding that was not asked for, or memory is short.';
  // A retry would most likely pay for another one.
  return new AppError('upstream', 'upstream_error', message, { headers: { 'x-should-retry': 'false' } });
}

// A truncated response decodes as far as it goes.
const LENIENT = { finishFlush: constants.Z_SYNC_FLUSH };
const LENIENT_BROTLI = { finishFlush: constants.BROTLI_OPERATION_FLUSH };

const DECODERS = {
  gzip: promisify<Buffer, object, Buffer>(gunzip),
  deflate: promisify<Buffer, object, Buffer>(inflate),
  br: promisify<Buffer, object, Buffer>(brotliDecompress),
};

/** A response that decodes to more than this, and to more than this ratio, is made to fill memory. Text stays far below. */
const MAX_DECODED_BYTES = 256 * 1024 * 1024;
const MAX_RATIO = 200;
const ANY_RATIO_BYTES = 1024 * 1024;

/** The most bytes that an encoded response of this length may decode to. */
function maxDecodedBytes(encodedBytes: number): number {
  return Math.min(MAX_DECODED_BYTES, ANY_RATIO_BYTES + encodedBytes * MAX_RATIO);
}

/** Decodes a whole response; undefined if it is damaged, or too large when decoded: above `maxBytes`, or out of proportion. */
export async function decodeBody(
  encoding: Encoding,
  body: Buffer,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const lenient = encoding === 'br' ? LENIENT_BROTLI : LENIENT;
  const maxOutputLength = Math.min(maxBytes, maxDecodedBytes(body.length));
  try {
    return await DECODERS[encoding](body, { ...lenient, maxOutputLength });
  } catch {
    return undefined;
  }
}

/** What a decoder keeps of what it decoded (RFC 1951, RFC 7932), and what else it takes. */
const WINDOW_BYTES: Readonly<Record<Encoding, number>> = {
  gzip: 32 * 1024,
  deflate: 32 * 1024,
  br: 16 * 1024 * 1024,
};
const DECODER_BYTES = 32 * 1024;

/** Decodes a response chunk by chunk. */
export class StreamDecoder {
  readonly #engine: Gunzip | Inflate | BrotliDecompress;
  readonly #windowBytes: number;
  readonly #memory: HeldMemory;
  #encodedBytes = 0;
  #decodedBytes = 0;
  /** Of the memory: for the decoder itself, and for what `push` has not returned yet. */
  #ownBytes = 0;
  #waitingBytes = 0;
  #decoded: Buffer[] = [];
  #hasFailed = false;

  /** `memory` holds the decoder and what it decodes. */
  constructor(encoding: Encoding, memory: HeldMemory) {
    this.#memory = memory;
    this.#windowBytes = WINDOW_BYTES[encoding];
    this.#engine =
      encoding === 'br'
        ? createBrotliDecompress(LENIENT_BROTLI)
        : encoding === 'gzip'
          ? createGunzip(LENIENT)
          : createInflate(LENIENT);
    this.#engine.on('data', (bytes: Buffer) => this.#add(bytes));
    this.#engine.on('error', () => this.#fail());
    if (!this.#growTo(DECODER_BYTES)) this.#fail();
  }

  /** The encoding is damaged, or decodes to too much: nothing more is decoded. */
  get hasFailed(): boolean {
    return this.#hasFailed;
  }

  /** Returns what the chunk decodes to; nothing once it has failed. */
  async push(chunk: Buffer): Promise<Buffer> {
    if (this.#hasFailed) return NOTHING;
    this.#encodedBytes += chunk.length;
    await new Promise<void>((resolve) => {
      this.#engine.once('close', resolve);
      this.#engine.write(chunk, () => {
        this.#engine.off('close', resolve);
        resolve();
      });
    });
    return this.#take();
  }

  async end(): Promise<Buffer> {
    if (!this.#hasFailed) {
      await new Promise<void>((resolve) => {
        this.#engine.once('close', resolve);
        this.#engine.end();
      });
    }
    return this.#take();
  }

  /** Frees the decoder's memory. */
  close(): void {
    this.#engine.destroy();
    this.#memory.release(this.#ownBytes + this.#waitingBytes);
    this.#ownBytes = 0;
    this.#waitingBytes = 0;
    this.#decoded = [];
  }

  #add(bytes: Buffer): void {
    if (this.#hasFailed) return;
    this.#decodedBytes += bytes.length;
    const isTooMuch =
      this.#decodedBytes > maxDecodedBytes(this.#encodedBytes) ||
      !this.#growTo(DECODER_BYTES + Math.min(this.#windowBytes, this.#decodedBytes)) ||
      !this.#memory.tryTake(bytes.length);
    if (isTooMuch) return void this.#fail();
    this.#waitingBytes += bytes.length;
    this.#decoded.push(bytes);
  }

  #growTo(bytes: number): boolean {
    if (bytes > this.#ownBytes) {
      if (!this.#memory.tryTake(bytes - this.#ownBytes)) return false;
      this.#ownBytes = bytes;
    }
    return true;
  }

  #fail(): void {
    this.#hasFailed = true;
    this.close();
  }

  #take(): Buffer {
    const taken = Buffer.concat(this.#decoded);
    this.#memory.release(this.#waitingBytes);
    this.#waitingBytes = 0;
    this.#decoded = [];
    return taken;
  }
}
