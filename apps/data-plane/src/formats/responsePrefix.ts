import type { BufferBudget } from './bufferBudget.ts';
import { isRecord, parseJson } from './jsonFields.ts';
import type { ResponseFormat } from './responseFormat.ts';
import { eventData, SseSplitter } from './sseSplitter.ts';

const MAX_BUFFERED_BYTES = 256 * 1024;

/** What the model wrote, as far as it is known; the whole is `ratio` times as long. */
export interface OutputSample {
  readonly text: string;
  readonly ratio: number;
}

/** Buffers the beginning of a streamed response: its tokens are estimated from it if the vendor reports no usage. */
export class ResponsePrefix {
  readonly #budget: BufferBudget;
  readonly #chunks: Buffer[] = [];
  #bufferedBytes = 0;
  #totalBytes = 0;
  #isFull = false;

  constructor(budget: BufferBudget) {
    this.#budget = budget;
  }

  add(chunk: Buffer): void {
    this.#totalBytes += chunk.length;
    if (this.#isFull) return;
    this.#isFull =
      this.#bufferedBytes + chunk.length > MAX_BUFFERED_BYTES || !this.#budget.tryTake(chunk.length);
    if (this.#isFull) return;
    this.#chunks.push(chunk);
    this.#bufferedBytes += chunk.length;
  }

  output(format: ResponseFormat): OutputSample {
    const splitter = new SseSplitter();
    const events = this.#chunks.flatMap((chunk) => splitter.push(chunk));
    const text = [...events, splitter.rest()].map((event) => textOfEvent(format, event)).join('');
    return { text, ratio: this.#bufferedBytes === 0 ? 1 : this.#totalBytes / this.#bufferedBytes };
  }

  release(): void {
    this.#budget.release(this.#bufferedBytes);
    this.#bufferedBytes = 0;
    this.#chunks.length = 0;
  }
}

function textOfEvent(format: ResponseFormat, event: Buffer): string {
  const data = eventData(event);
  const value = data && parseJson(data);
  return isRecord(value) ? format.textOfEvent(value) : '';
}
