import { ChunkList, eventData, SseSplitter } from '@weighbridge/dialects';
import type { HeldMemory } from '../shared/memoryBudget.ts';
import { isRecord, parseJson } from './jsonFields.ts';
import type { ResponseFormat } from './responseFormat.ts';

const MAX_BUFFERED_BYTES = 64 * 1024;

/** What the model wrote, as far as it is known; the whole is `ratio` times as long. */
export interface OutputSample {
  readonly text: string;
  readonly ratio: number;
}

/** Buffers the beginning of a streamed response: its tokens are estimated from it if the vendor reports no usage. */
export class ResponsePrefix {
  readonly #memory: HeldMemory;
  readonly #chunks = new ChunkList();
  #totalBytes = 0;
  #isFull = false;

  constructor(memory: HeldMemory) {
    this.#memory = memory;
  }

  add(chunk: Buffer): void {
    this.#totalBytes += chunk.length;
    if (this.#isFull) return;
    this.#isFull =
      this.#chunks.length + chunk.length > MAX_BUFFERED_BYTES || !this.#memory.tryTake(chunk.length);
    if (!this.#isFull) this.#chunks.add(chunk);
  }

  output(format: ResponseFormat): OutputSample {
    const splitter = new SseSplitter();
    const events = this.#chunks.chunks.flatMap((chunk) => splitter.push(chunk));
    const text = [...events, splitter.rest()].map((event) => textOfEvent(format, event)).join('');
    return { text, ratio: this.#chunks.length === 0 ? 1 : this.#totalBytes / this.#chunks.length };
  }

  release(): void {
    this.#memory.release(this.#chunks.length);
    this.#chunks.clear();
  }
}

function textOfEvent(format: ResponseFormat, event: Buffer): string {
  const data = eventData(event);
  const value = data && parseJson(data);
  return isRecord(value) ? format.textOfEvent(value) : '';
}
