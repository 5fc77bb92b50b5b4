import type { TraceHeaders } from '@weighbridge/runtime';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import type { Operation } from '../formats/operation.ts';
import type { AttemptEnd, PreparedRequest } from './attempt.ts';
import type { Endpoint } from './endpoints.ts';
import type { Ended, RequestOutcome } from './outcomes.ts';

/** The spans of one request. */
export interface RequestTrace {
  /** Of the request itself; undefined where it is not exported. */
  readonly traceId: string | undefined;
  /** Begins an attempt's; returns what is to be sent along with it. */
  attempt(operation: Operation, prepared: PreparedRequest): TraceHeaders;
  /** Ends that. What is not billed has no usage and no cost; `output` is what the model wrote. */
  attemptEnded(end: Ended & Partial<AttemptEnd>, output?: () => string): void;
  ended(observed: RequestObservation, outcome: RequestOutcome): void;
}

/** What one request turns out to be, noted as it goes: what metrics, the log and traces are made of at its end. */
export interface RequestObservation {
  readonly id: string;
  readonly endpoint: Endpoint;
  /** Monotonic, in milliseconds. */
  readonly receivedAt: number;
  /** Undefined where it could not be told. */
  key: ResolvedKey | undefined;
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
  /** What its caller got, as far as that is known. */
  status: number;
  /** Undefined where nothing is traced. */
  trace: RequestTrace | undefined;
  /** The code of the error that its caller was told of by this service. */
  errorCode: string;
}

export function observe(
  request: Pick<RequestObservation, 'id' | 'endpoint' | 'receivedAt' | 'key'>,
): RequestObservation {
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
    status: 0,
    trace: undefined,
    errorCode: '',
  };
}

/** The governing policy of its key. */
export function policyOf({ key }: Pick<RequestObservation, 'key'>): string {
  return key?.policies[0]?.bucket.policyId ?? 'none';
}
