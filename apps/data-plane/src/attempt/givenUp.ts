import { AnswerBody } from '../upstream/answerBody.ts';
import type { Answered } from './attempt.ts';

const MAX_KEPT_BYTES = 64 * 1024;
const MAX_WAIT_MS = 1_000;

/**
 * An answer that another attempt is to stand in for. It is read in the background, and kept in case that none does; for
 * what does not come soon, its connection is not held any longer.
 */
export class GivenUp {
  readonly #answered: Answered;
  readonly #kept: Promise<Buffer | undefined>;

  constructor(answered: Answered) {
    const { body } = answered.answer;
    this.#answered = answered;
    const timer = setTimeout(() => body.destroy(), MAX_WAIT_MS);
    this.#kept = readWhole(body).finally(() => clearTimeout(timer));
  }

  /** The answer, as if it had just come; undefined where it does not come whole, or not soon. */
  async take(): Promise<Answered | undefined> {
    const bytes = await this.#kept;
    return bytes && { ...this.#answered, answer: { ...this.#answered.answer, body: AnswerBody.of(bytes) } };
  }
}

/** Undefined where it breaks off, or is larger than what is worth keeping. */
async function readWhole(body: AnswerBody): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    await body.each((chunk) => {
      bytes += chunk.length;
      if (bytes > MAX_KEPT_BYTES) body.destroy();
      else chunks.push(chunk);
      return undefined;
    });
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}
