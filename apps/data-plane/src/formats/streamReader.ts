import type { HeldMemory } from '../shared/memoryBudget.ts';
import { encodingOf, isSupported, StreamDecoder, undecodable } from './contentEncoding.ts';
import type { ResponseFacts, ResponseFormat } from './responseFormat.ts';
import { type OutputSample, ResponsePrefix } from './responsePrefix.ts';
import { type OnEvent, StreamTap } from './streamTap.ts';

const NOTHING = Buffer.alloc(0);

export interface StreamReaderOptions {
  readonly format: ResponseFormat;
  readonly hideUsage: boolean;
  /** The client gets decoded bytes, whatever the encoding. Default: false. */
  readonly decodes?: boolean | undefined;
  /** The response's `content-encoding`. */
  readonly contentEncoding: unknown;
  /** Holds what is buffered of the response. */
  readonly memory: HeldMemory;
  /** Called with each event, decoded. */
  readonly onEvent?: OnEvent | undefined;
}

/**
 * Reads a streamed response, by a StreamTap, while it passes to the client. An encoded stream passes unchanged and is
 * decoded on the side, unless events have to be hidden: then it passes decoded. If it turns out damaged, or expands to too
 * much, the rest is not read, and `facts.unreadable` is set.
 */
export class StreamReader {
  readonly #tap: StreamTap;
  readonly #prefix: ResponsePrefix;
  readonly #decoder: StreamDecoder | undefined;
  /** The client gets decoded bytes, so the vendor's `content-encoding` header must be removed. */
  readonly emitsDecoded: boolean;
  /** The client gets plain text, so an event of the proxy's own may follow it. */
  readonly emitsPlainText: boolean;

  constructor({ format, hideUsage, decodes = false, contentEncoding, memory, onEvent }: StreamReaderOptions) {
    const encoding = encodingOf(contentEncoding);
    this.#tap = new StreamTap({ format, hideUsage, onEvent, memory });
    this.#prefix = new ResponsePrefix(memory);
    this.#decoder = isSupported(encoding) ? new StreamDecoder(encoding, memory) : undefined;
    this.emitsDecoded = this.#decoder !== undefined && (hideUsage || decodes);
    this.emitsPlainText = encoding === undefined || this.emitsDecoded;
  }

  get facts(): ResponseFacts {
    return this.#tap.facts;
  }

  /** Returns the bytes for the client; a promise only if the chunk has to be decoded first. */
  push(chunk: Buffer): Buffer | Promise<Buffer> {
    if (this.#decoder) return this.#read(this.#decoder.push(chunk), chunk);
    this.#prefix.add(chunk);
    return this.#tap.push(chunk);
  }

  /** The last bytes for the client, after the vendor's stream ended without an error. */
  async end(): Promise<Buffer> {
    const last = this.#decoder ? await this.#read(this.#decoder.end(), NOTHING) : NOTHING;
    const rest = this.#tap.end();
    return this.emitsPlainText ? Buffer.concat([last, rest]) : NOTHING;
  }

  output(format: ResponseFormat): OutputSample {
    return this.#prefix.output(format);
  }

  close(): void {
    this.#prefix.release();
    this.#decoder?.close();
  }

  async #read(decoding: Promise<Buffer>, original: Buffer): Promise<Buffer> {
    const decoded = await decoding;
    if (this.#decoder?.hasFailed) {
      this.facts.unreadable = true;
      if (this.emitsDecoded) throw undecodable();
    }
    this.#prefix.add(decoded);
    const visible = this.#tap.push(decoded);
    return this.emitsDecoded ? visible : original;
  }
}
