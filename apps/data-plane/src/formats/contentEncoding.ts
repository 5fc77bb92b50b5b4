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

// A truncated response decodes as far as it goes.
const LENIENT = { finishFlush: constants.Z_SYNC_FLUSH };
const LENIENT_BROTLI = { finishFlush: constants.BROTLI_OPERATION_FLUSH };

const DECODERS = {
  gzip: promisify<Buffer, object, Buffer>(gunzip),
  deflate: promisify<Buffer, object, Buffer>(inflate),
  br: promisify<Buffer, object, Buffer>(brotliDecompress),
};

/** Decodes a whole response; undefined if it is damaged, or larger than `maxBytes` when decoded. */
export async function decodeBody(
  encoding: Encoding,
  body: Buffer,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const lenient = encoding === 'br' ? LENIENT_BROTLI : LENIENT;
  try {
    return await DECODERS[encoding](body, { ...lenient, maxOutputLength: maxBytes });
  } catch {
    return undefined;
  }
}

/** Decodes a response chunk by chunk. */
export class StreamDecoder {
  readonly #engine: Gunzip | Inflate | BrotliDecompress;
  #decoded: Buffer[] = [];
  #damaged = false;

  constructor(encoding: Encoding) {
    this.#engine =
      encoding === 'br'
        ? createBrotliDecompress(LENIENT_BROTLI)
        : encoding === 'gzip'
          ? createGunzip(LENIENT)
          : createInflate(LENIENT);
    this.#engine.on('data', (bytes: Buffer) => this.#decoded.push(bytes));
    this.#engine.on('error', () => {
      this.#damaged = true;
    });
  }

  /** Returns what the chunk decodes to; nothing once the encoding turned out to be damaged. */
  async push(chunk: Buffer): Promise<Buffer> {
    if (this.#damaged) return Buffer.alloc(0);
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
    if (!this.#damaged) {
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
  }

  #take(): Buffer {
    const taken = Buffer.concat(this.#decoded);
    this.#decoded = [];
    return taken;
  }
}
