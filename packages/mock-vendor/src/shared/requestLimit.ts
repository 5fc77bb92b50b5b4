import type { ServerResponse } from 'node:http';
import { VendorError } from './vendorError.ts';

const MINUTE_MS = 60_000;

/** The requests that a vendor grants its accounts together in any minute; undefined: as many as come. */
export class RequestLimit {
  #limit: number | undefined;
  /** When it granted those of the last minute, oldest first. */
  #granted: number[] = [];

  set(requestsPerMinute: number | undefined): void {
    this.#limit = requestsPerMinute;
    this.#granted = [];
  }

  /** Says what is left in OpenAI's headers; throws a 429 once nothing is. */
  take(response: ServerResponse): void {
    if (this.#limit === undefined) return;
    const nowMs = performance.now();
    this.#granted = this.#granted.filter((atMs) => atMs > nowMs - MINUTE_MS);
    const isGranted = this.#granted.length < this.#limit;
    if (isGranted) this.#granted.push(nowMs);
    const resetMs = Math.ceil((this.#granted[0] ?? nowMs) + MINUTE_MS - nowMs);
    response.setHeader('x-ratelimit-limit-requests', String(this.#limit));
    response.setHeader('x-ratelimit-remaining-requests', String(this.#limit - this.#granted.length));
    response.setHeader('x-ratelimit-reset-requests', `${resetMs}ms`);
    if (isGranted) return;
    throw new VendorError(429, `Rate limit reached for requests. Please try again in ${resetMs}ms.`, {
      type: 'requests',
      code: 'rate_limit_exceeded',
      headers: { 'retry-after-ms': String(resetMs), 'retry-after': String(Math.ceil(resetMs / 1_000)) },
    });
  }
}
