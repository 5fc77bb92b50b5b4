import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { Endpoint } from './endpoints.ts';
import type { Ended, RequestOutcome } from './outcomes.ts';

/** What one request turns out to be, noted as it goes: what metrics, the log and traces are made of at its end. */
export interface Observed {
  readonly id: string;
  readonly endpoint: Endpoint;
  /** Monotonic, in milliseconds. */
  readonly receivedAt: number;
  /** Undefined where it could not be told. */
  readonly key: ResolvedKey | undefined;
  streamed: boolean;
  /** The id of the model that worked at it last, or was to; empty where none was chosen. */
  model: string;
  connectorId: string;
  attempts: number;
  /** How its last attempt ended. */
  last: Ended | undefined;
  /** Set where it is known before the end. */
  outcome: RequestOutcome | undefined;
  /** What was not spent waiting for vendors, until the answer began. */
  overheadMs: number | undefined;
  /** Of the answer that the caller got; monotonic, in milliseconds. */
  firstChunkAt: number | undefined;
  /** Of all its attempts. */
  costNanoUsd: bigint;
  inputTokens: number;
  outputTokens: number;
  /** The code of the error that its caller was told of by this service. */
  errorCode: string;
}

export function observe(request: Pick<Observed, 'id' | 'endpoint' | 'receivedAt' | 'key'>): Observed {
  return {
    id: request.id,
    endpoint: request.endpoint,
    receivedAt: request.receivedAt,
    key: request.key,
    streamed: false,
    model: '',
    connectorId: '',
    attempts: 0,
    last: undefined,
    outcome: undefined,
    overheadMs: undefined,
    firstChunkAt: undefined,
    costNanoUsd: 0n,
    inputTokens: 0,
    outputTokens: 0,
    errorCode: '',
  };
}

/** The governing policy of its key. */
export function policyOf({ key }: Pick<Observed, 'key'>): string {
  return key?.policies[0]?.bucket.policyId ?? 'none';
}
