import { AppError, type AppErrorOptions, type ErrorKind } from '@weighbridge/errors';
import { type BucketRef, definedBy } from './bucketRef.ts';

/** The code of a refusal because running requests hold what is left. */
export const BUDGET_CONTENDED = 'budget_contended';

/** The code of a refusal because no lease can be had. */
export const BUDGET_UNAVAILABLE = 'budget_unavailable';

/** What of a counter may have no headroom. */
export const REFUSING_LIMITS = [
  ...(['budget', 'limit_requests', 'limit_tokens'] as const),
  ...(['requests_per_minute', 'tokens_per_minute', 'max_parallel'] as const),
] as const;

/** The counter of a policy that had no headroom for a request. */
export interface RefusingCounter {
  readonly bucket: Pick<BucketRef, 'policyId' | 'counterVersion' | 'subject'> & Partial<BucketRef>;
  /** Of a further limit. */
  readonly name?: string | undefined;
  readonly limits: (typeof REFUSING_LIMITS)[number];
  /** Nano-USD of a budget; else requests or tokens. */
  readonly limit?: bigint | undefined;
  readonly spent?: bigint | undefined;
  /** What the request may have cost, in nano-USD; or its tokens, or 1. */
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

/** A further limit that had no headroom for an attempt. */
export interface LimitWithoutHeadroom {
  readonly id: string;
  readonly name: string;
  /** Waiting may help: running requests hold what is left, no lease can be had now, or a minute has to end. */
  readonly isPassing: boolean;
}

/** Undefined if the error is no refusal of a further limit. */
export function limitWithoutHeadroom(error: unknown): LimitWithoutHeadroom | undefined {
  if (!(error instanceof LimitError)) return undefined;
  // A request that lacks attribution is refused wherever it goes.
  if (error.kind !== 'quota' && error.kind !== 'rate_limit' && error.code !== BUDGET_UNAVAILABLE)
    return undefined;
  const { bucket, name = '' } = error.counter;
  const { limitId } = definedBy(bucket);
  return limitId === undefined ? undefined : { id: limitId, name, isPassing: isPassing(error) };
}

/** Of a minute, everything is free again soon, but a request that is larger than all of it never passes. */
function isPassing({ kind, code, counter: { limit, wanted = 1n } }: LimitError): boolean {
  if (kind === 'rate_limit') return limit === undefined || wanted <= limit;
  return code === BUDGET_CONTENDED || code === BUDGET_UNAVAILABLE;
}
