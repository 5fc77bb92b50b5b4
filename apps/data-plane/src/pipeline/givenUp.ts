import { Readable } from 'node:stream';
import { finished } from 'node:stream/promises';
import type { Answered } from './attempt.ts';

const MAX_KEPT_BYTES = 64 * 1024;
const MAX_WAIT_MS = 1_000;

/** An answer that another attempt is to stand in for. It is read in the background, and kept in case that none does. */
export class GivenUp {
  readonly #answered: Answered;
  #chunks: Buffer[] = [];
  #bytes = 0;
  #isWhole = false;

  constructor(answered: Answered) {
    this.#answered = answered;
    const { body } = answered.answer;
    body.on('data', (chunk: Buffer) => {
      this.#bytes += chunk.length;
      this.#chunks.push(chunk);
      if (this.#bytes > MAX_KEPT_BYTES) this.#drop();
    });
    body.once('end', () => {
      this.#isWhole = true;
    });
  }

  /** The answer, as if it had just come; undefined where it does not come whole, or not soon. */
  async take(): Promise<Answered | undefined> {
    const { body } = this.#answered.answer;
    await finished(body, { signal: AbortSignal.timeout(MAX_WAIT_MS) }).catch(() => {});
    if (!this.#isWhole) return this.#drop();
    const { answer } = this.#answered;
    return { ...this.#answered, answer: { ...answer, body: Readable.from(this.#chunks) } };
  }

  #drop(): undefined {
    this.#chunks = [];
    this.#answered.answer.body.destroy();
  }
}
