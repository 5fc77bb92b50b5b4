import type { HeldMemory } from '../shared/memoryBudget.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { ResponseBody } from '../upstream/responseBody.ts';
import type { Attempt } from './attempt.ts';

const MAX_KEPT_BYTES = 64 * 1024;
const MAX_WAIT_MS = 1_000;

/**
 * The error response of an attempt that another one replaces. It is read in the background, in case no later attempt
 * succeeds; a body that takes too long or is too large, or for which memory is short, is dropped, and its connection with it.
 */
export class SupersededResponse {
  readonly attempt: Attempt;
  readonly #body: Promise<Buffer | undefined>;

  /** `memory` holds the body until the request ends. */
  constructor(attempt: Attempt, memory: HeldMemory) {
    const { body } = attempt.response;
    this.attempt = attempt;
    const timer = setTimeout(() => body.destroy(), MAX_WAIT_MS);
    this.#body = readBody(body, memory).finally(() => clearTimeout(timer));
  }

  /** The body as it came; undefined if it was dropped. */
  bytes(): Promise<Buffer | undefined> {
    return this.#body;
  }

  /** The response as if it had just arrived; undefined if its body was dropped. */
  async take(): Promise<UpstreamResponse | undefined> {
    const bytes = await this.#body;
    return bytes && { ...this.attempt.response, body: ResponseBody.of(bytes) };
  }
}

/** Undefined if the body breaks off or is too large to be held. */
async function readBody(body: ResponseBody, memory: HeldMemory): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    await body.forEachChunk((chunk) => {
      bytes += chunk.length;
      if (bytes > MAX_KEPT_BYTES || !memory.tryTake(chunk.length)) body.destroy();
      else chunks.push(chunk);
      return undefined;
    });
    return Buffer.concat(chunks);
  } catch {
    return undefined;
  }
}
