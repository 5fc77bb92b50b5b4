import type { AnswerFormat } from './answerFormat.ts';
import { isRecord } from './answerFormat.ts';
import { eventData, SseSplitter } from './sseSplitter.ts';

/** What the answers of all requests together may hold, so that memory stays flat however many stream at once. */
export class HoldBudget {
  #free: number;

  constructor(bytes: number) {
    this.#free = bytes;
  }

  take(bytes: number): boolean {
    if (bytes > this.#free) return false;
    this.#free -= bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#free += bytes;
  }
}

const MAX_HELD_BYTES = 256 * 1024;

/** The beginning of a streamed answer, kept in case that the vendor does not say what it counted. */
export class HeldAnswer {
  readonly #budget: HoldBudget;
  readonly #chunks: Buffer[] = [];
  #heldBytes = 0;
  #allBytes = 0;
  #isFull = false;

  constructor(budget: HoldBudget) {
    this.#budget = budget;
  }

  add(chunk: Buffer): void {
    this.#allBytes += chunk.length;
    if (this.#isFull) return;
    this.#isFull = this.#heldBytes + chunk.length > MAX_HELD_BYTES || !this.#budget.take(chunk.length);
    if (this.#isFull) return;
    this.#chunks.push(chunk);
    this.#heldBytes += chunk.length;
  }

  /** What the model wrote, as far as it was held, and how much longer the whole answer is. */
  text(format: AnswerFormat): { readonly text: string; readonly ratio: number } {
    const splitter = new SseSplitter();
    const events = this.#chunks.flatMap((chunk) => splitter.push(chunk));
    const text = [...events, splitter.rest()].map((event) => textOfEvent(format, event)).join('');
    return { text, ratio: this.#heldBytes === 0 ? 1 : this.#allBytes / this.#heldBytes };
  }

  release(): void {
    this.#budget.giveBack(this.#heldBytes);
    this.#heldBytes = 0;
    this.#chunks.length = 0;
  }
}

function textOfEvent(format: AnswerFormat, event: Buffer): string {
  const data = eventData(event);
  const value = data && parsed(data);
  return isRecord(value) ? format.textOfEvent(value) : '';
}

/** What the model wrote in a whole answer; the answer as it is where it is not of the expected form. */
export function textOfWhole(format: AnswerFormat, body: Buffer): string {
  const value = parsed(body);
  return isRecord(value) ? format.textOfWhole(value) : body.toString('utf8');
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'));
  } catch {
    return undefined;
  }
}
