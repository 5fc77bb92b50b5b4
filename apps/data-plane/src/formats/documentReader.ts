import type { HeldMemory } from '../shared/memoryBudget.ts';
import { encodingOf, isSupported, StreamDecoder } from './contentEncoding.ts';
import { JsonPruner } from './jsonPruner.ts';
import { beginsObject } from './markers.ts';
import {
  type NamedFacts,
  nameObject,
  noFacts,
  type ResponseFacts,
  type ResponseFormat,
  readBody,
} from './responseFormat.ts';
import { StreamTap } from './streamTap.ts';

const OPEN_BRACE = 0x7b;
const SPACES: ReadonlySet<number> = new Set([0x20, 0x0a, 0x0d, 0x09]);
/** Decoded at once: a compressed piece of this size can't grow beyond 17 MB. */
const DECODED_PIECE_BYTES = 16 * 1024;

/** Reads a response that is too large to be held, while it passes: a JSON document, or a stream of events that is labelled as one. */
export class DocumentReader {
  readonly #format: ResponseFormat;
  readonly #memory: HeldMemory;
  readonly #decoder: StreamDecoder | undefined;
  readonly #isUnreadable: boolean;
  #document: JsonPruner | undefined;
  #stream: StreamTap | undefined;
  #readBytes = 0;
  /** What was named when it was last asked for. */
  #named: ResponseFacts | undefined;

  /** `memory` holds what is buffered of the response. */
  constructor(format: ResponseFormat, contentEncoding: unknown, memory: HeldMemory) {
    this.#memory = memory;
    const encoding = encodingOf(contentEncoding);
    this.#format = format;
    this.#isUnreadable = encoding === 'unknown';
    this.#decoder = isSupported(encoding) ? new StreamDecoder(encoding, memory) : undefined;
  }

  /** What was read so far. */
  get facts(): NamedFacts {
    this.#named ??= noFacts();
    const facts = this.#stream?.facts ?? this.#named;
    if (this.#document) this.#format.readBody(this.#document.partial, facts);
    facts.unreadable = this.#isUnreadable || (this.#decoder?.hasFailed ?? false);
    return facts;
  }

  /** How much was read, decoded. */
  get readBytes(): number {
    return this.#readBytes;
  }

  /** A promise only if the chunk has to be decoded first. */
  push(chunk: Buffer): Promise<void> | undefined {
    if (this.#isUnreadable) return undefined;
    if (this.#decoder) return this.#decode(this.#decoder, chunk);
    this.#read(chunk);
    return undefined;
  }

  /** To be called once, also if the response broke off. */
  async end(): Promise<ResponseFacts> {
    let hasFailed = this.#isUnreadable;
    if (this.#decoder) {
      this.#read(await this.#decoder.end());
      hasFailed = this.#decoder.hasFailed;
      this.#decoder.close();
    }
    this.#stream?.end();
    const facts = this.#stream?.facts ?? noFacts();
    if (this.#document) this.#format.readBody(this.#document.result, facts);
    facts.unreadable = hasFailed;
    const named = this.#named;
    if (named?.objects && facts.objects) {
      // In the order in which they were told.
      for (const [id, kind] of facts.objects.ids) nameObject(named, id, kind);
      facts.objects = named.objects;
    }
    return facts;
  }

  async #decode(decoder: StreamDecoder, chunk: Buffer): Promise<void> {
    for (let at = 0; at < chunk.length; at += DECODED_PIECE_BYTES) {
      this.#read(await decoder.push(chunk.subarray(at, at + DECODED_PIECE_BYTES)));
    }
  }

  #read(bytes: Buffer): void {
    this.#readBytes += bytes.length;
    if (!this.#document && !this.#stream) this.#begin(bytes);
    if (this.#document) this.#document.push(bytes);
    else this.#stream?.push(bytes);
  }

  /** The first byte that is no space tells a document from a stream. */
  #begin(bytes: Buffer): void {
    const first = bytes.find((byte) => !SPACES.has(byte));
    if (first === OPEN_BRACE) this.#document = new JsonPruner(this.#format.bodyShape);
    else if (first !== undefined) {
      this.#stream = new StreamTap({ format: this.#format, hideUsage: false, memory: this.#memory });
    }
  }
}

/** What a response that is held whole reports. */
export function factsOf(format: ResponseFormat, body: Buffer): ResponseFacts {
  const facts = noFacts();
  readBody(format, body, facts);
  if (facts.usage || facts.responseId || beginsObject(body)) return facts;
  // A stream of events with another content type.
  const tap = new StreamTap({ format, hideUsage: false });
  tap.push(body);
  tap.end();
  return tap.facts;
}
