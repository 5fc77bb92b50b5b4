import type { IncomingMessage } from 'node:http';
import { AppError } from '@weighbridge/errors';
import { memoryLimitBytes } from '../memoryLimit.ts';

/** Larger heads may take half of the limit: they can't keep out those that clients send. */
const LARGE_HEAD_BYTES = 16 * 1024;
const LEAST_LIMIT_BYTES = 32 * 1024 * 1024;
const SHARE_OF_MEMORY = 16;

/** A sixteenth of the memory limit, at least 32 MiB: thirty thousand usual heads. */
export function defaultHeadBytes(): number {
  return Math.max(LEAST_LIMIT_BYTES, Math.floor(memoryLimitBytes() / SHARE_OF_MEMORY));
}

/** The bytes that the heads of requests take, from their arrival until they are answered. */
export class HeldHeads {
  readonly limitBytes: number;
  #bytes = 0;

  constructor(limitBytes: number) {
    this.limitBytes = limitBytes;
  }

  /** Takes room for a head, and returns its bytes: give them back once the request is answered. Undefined if it does not fit. */
  take({ rawHeaders, url = '' }: IncomingMessage): number | undefined {
    let bytes = url.length;
    for (const text of rawHeaders) bytes += text.length;
    const limit = bytes > LARGE_HEAD_BYTES ? this.limitBytes / 2 : this.limitBytes;
    if (this.#bytes + bytes > limit) return undefined;
    this.#bytes += bytes;
    return bytes;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** Those of the arriving heads that must go, so that the rest fits: large ones only. */
  overdue<T extends { readonly bytes: number }>(arriving: readonly T[]): readonly T[] {
    let total = arriving.reduce((sum, { bytes }) => sum + bytes, 0);
    return arriving.filter(({ bytes }) => {
      if (total <= this.limitBytes || bytes <= LARGE_HEAD_BYTES) return false;
      total -= bytes;
      return true;
    });
  }
}

/** The error for a request whose head does not fit. */
export function noRoomForHead(): AppError {
  const message =
    'The heads of the requests in progress take all memory that they may. Try again, with fewer or shorter headers.';
  return new AppError('unavailable', 'memory_budget_exhausted', message, { headers: { 'retry-after': '1' } });
}
