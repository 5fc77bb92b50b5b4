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

/** The content encodings (RFC 9110, section 8.4.1) that this service can read on their way. */
const READABLE = new Set(['gzip', 'x-gzip', 'deflate', 'br', 'identity']);

/** What a vendor may answer in: what the caller takes and this service can read. */
export function decodableEncodings(acceptEncoding: string | string[] | undefined): string {
  if (acceptEncoding === undefined) return 'identity';
  const wish = String(acceptEncoding);
  const known = passable.get(wish);
  if (known !== undefined) return known;
  const passes = readableOf(wish);
  if (passable.size < MAX_WISHES) passable.set(wish, passes);
  return passes;
}

/** Clients of one kind all wish for the same; others may wish for whatever they like. */
const passable = new Map<string, string>();
const MAX_WISHES = 64;

function readableOf(wish: string): string {
  const accepted = wish
    .split(',')
    .map((one) => one.trim())
    .filter((one) => READABLE.has((one.split(';')[0] ?? '').trim().toLowerCase()));
  return accepted.join(', ') || 'identity';
}

export type Encoding = 'gzip' | 'deflate' | 'br';

/** How an answer is encoded: undefined where it is plain, `unknown` where nobody here can read it. */
export function encodingOf(contentEncoding: unknown): Encoding | 'unknown' | undefined {
  const name = String(contentEncoding ?? '')
    .trim()
    .toLowerCase();
  if (name === '' || name === 'identity') return undefined;
  if (name === 'gzip' || name === 'x-gzip') return 'gzip';
  return name === 'deflate' || name === 'br' ? name : 'unknown';
}

// An answer that was cut short still gives what it holds.
const LENIENT = { finishFlush: constants.Z_SYNC_FLUSH };
const LENIENT_BROTLI = { finishFlush: constants.BROTLI_OPERATION_FLUSH };

const DECODE_WHOLE = {
  gzip: promisify<Buffer, object, Buffer>(gunzip),
  deflate: promisify<Buffer, object, Buffer>(inflate),
  br: promisify<Buffer, object, Buffer>(brotliDecompress),
};

/** A whole answer, decoded; undefined where it is damaged, or larger than `maxBytes` when decoded. */
export async function decodeBody(
  encoding: Encoding,
  body: Buffer,
  maxBytes: number,
): Promise<Buffer | undefined> {
  const lenient = encoding === 'br' ? LENIENT_BROTLI : LENIENT;
  try {
    return await DECODE_WHOLE[encoding](body, { ...lenient, maxOutputLength: maxBytes });
  } catch {
    return undefined;
  }
}

/** Decodes an answer piece by piece. */
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

  /** What a piece decodes to together with those before it; nothing more once the encoding turned out damaged. */
  async push(piece: Buffer): Promise<Buffer> {
    if (this.#damaged) return Buffer.alloc(0);
    await new Promise<void>((resolve) => {
      this.#engine.once('close', resolve);
      this.#engine.write(piece, () => {
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

  /** Frees the engine's memory at once. */
  close(): void {
    this.#engine.destroy();
  }

  #take(): Buffer {
    const taken = Buffer.concat(this.#decoded);
    this.#decoded = [];
    return taken;
  }
}
