import { AppError, type AppErrorOptions, type ErrorKind } from '@weighbridge/errors';
import type { BucketRef } from './bucketRef.ts';

/** The counter of a policy that had no headroom for a request. */
export interface RefusingCounter {
  readonly bucket: Pick<BucketRef, 'policyId' | 'counterVersion' | 'subject'> & Partial<BucketRef>;
  readonly limits: 'budget' | 'requests_per_minute' | 'tokens_per_minute' | 'max_parallel';
  /** Nano-USD of a budget; else requests or tokens. */
  readonly limit?: bigint | undefined;
  readonly spent?: bigint | undefined;
  /** What the request may have cost, in nano-USD; or its tokens. */
  readonly wanted?: bigint | undefined;
  readonly resetsAtMs?: number | undefined;
}

/** A request met a limit. What its caller may not know of the counter is in its row, for those who may. */
export class LimitError extends AppError {
  readonly counter: RefusingCounter;

  constructor(
    counter: RefusingCounter,
    kind: ErrorKind,
    code: string,
    message: string,
    options?: AppErrorOptions,
  ) {
    super(kind, code, message, options);
    this.counter = counter;
  }
}
