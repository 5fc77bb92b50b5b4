import type { IncomingMessage } from 'node:http';
import { ChunkList } from '@weighbridge/dialects';
import { type BodyReader, bodyTooLarge, RequestMessage } from '@weighbridge/runtime';
import { BodyMemory } from '../formats/bodyMemory.ts';
import { RequestBody } from '../formats/requestBody.ts';
import type { HeldMemory } from '../shared/memoryBudget.ts';

/** Memory for a body of unknown length is taken in steps of this size. */
const STEP_BYTES = 64 * 1024;
/** A body of known length from this size on has its own memory, unless it comes in one chunk. */
const MIN_OWNED_BYTES = 32 * 1024;
/** Taken for a body in chunks: Node makes a buffer for each chunk in what it reads at once. */
const CHUNKS_BYTES = 1024 * 1024;

export interface BodyLimits {
  readonly limitBytes: number;
  /** Holds the body. */
  readonly memory: HeldMemory;
  readonly principalId: string;
}

/**
 * Takes the memory for a body whose length the head says. Throws a 503 before a byte is read; the memory of another body is
 * taken as it arrives.
 */
export function takeBodyMemory({ headers }: IncomingMessage, { memory, principalId }: BodyLimits): void {
  const length = Number(headers['content-length'] ?? 0);
  const taken = headers['transfer-encoding'] === undefined ? length : CHUNKS_BYTES;
  memory.takeBody(taken, taken, principalId);
}

/**
 * Reads a body for which `takeBodyMemory` was called, and resolves with what `use` makes of it; with undefined if the client
 * disconnects before its end. Rejects with what `use` throws.
 */
export function readBody<Result>(
  request: IncomingMessage,
  limits: BodyLimits,
  use: (body: RequestBody) => Result,
): Promise<Result | undefined> {
  return new Promise((resolve, reject) => {
    const onEnd = (body: RequestBody | undefined): void => {
      try {
        resolve(body && use(body));
      } catch (error) {
        reject(error);
      }
    };
    new BodyReading(request, limits, onEnd, reject).start();
  });
}

class BodyReading implements BodyReader {
  readonly #request: IncomingMessage;
  readonly #limits: BodyLimits;
  readonly #resolve: (body: RequestBody | undefined) => void;
  readonly #reject: (error: Error) => void;
  /** Undefined if the length is not known. */
  readonly #expectedBytes: number | undefined;
  #takenBytes: number;
  /** The common case: the body is one chunk. */
  #only: Buffer | undefined;
  #list: ChunkList | undefined;
  #owned: BodyMemory | undefined;

  constructor(
    request: IncomingMessage,
    limits: BodyLimits,
    resolve: (body: RequestBody | undefined) => void,
    reject: (error: Error) => void,
  ) {
    this.#request = request;
    this.#limits = limits;
    this.#resolve = resolve;
    this.#reject = reject;
    const length = request.headers['content-length'];
    this.#expectedBytes = length === undefined ? undefined : Number(length);
    this.#takenBytes = this.#expectedBytes ?? 0;
  }

  start(): void {
    const request = this.#request;
    if (request.destroyed && !request.complete) return void this.#onGone();
    request.on('close', this.#onGone);
    const isKnown = this.#expectedBytes !== undefined;
    if (isKnown && request instanceof RequestMessage && request.readBodyBy(this)) return;
    request.on('data', (chunk: Buffer) => this.add(chunk));
    request.on('end', () => this.end());
    request.on('error', this.#onGone);
  }

  add(chunk: Buffer): void {
    if (chunk.length === this.#expectedBytes) this.#only = chunk;
    else if (this.#expectedBytes !== undefined && this.#expectedBytes >= MIN_OWNED_BYTES) {
      this.#owned ??= this.#own(this.#expectedBytes);
      this.#owned.add(chunk);
    } else this.#addPart(chunk);
  }

  end(): void {
    const chunks = this.#only ? [this.#only] : (this.#list?.chunks ?? []);
    this.#resolve(new RequestBody(this.#owned ? [this.#owned.bytes] : chunks, this.#owned));
  }

  #own(bytes: number): BodyMemory {
    const owned = new BodyMemory(bytes);
    this.#limits.memory.onClose(() => owned.free());
    return owned;
  }

  #addPart(chunk: Buffer): void {
    this.#list ??= new ChunkList();
    const bytes = this.#list.length + chunk.length;
    // Memory is taken in steps, which may go beyond a small limit.
    if (bytes > Math.min(this.#takenBytes, this.#limits.limitBytes)) {
      try {
        this.#grow(bytes);
      } catch (error) {
        this.#request.removeAllListeners('data').pause();
        this.#reject(error as Error);
        return;
      }
    }
    this.#list.add(chunk);
  }

  #grow(bytes: number): void {
    const { limitBytes, memory, principalId } = this.#limits;
    if (bytes > limitBytes) throw bodyTooLarge(limitBytes);
    const taken = Math.ceil(bytes / STEP_BYTES) * STEP_BYTES;
    memory.takeBody(taken - this.#takenBytes, taken, principalId);
    this.#takenBytes = taken;
  }

  readonly #onGone = (): void => this.#resolve(undefined);
}
