import type { LockedAttribution, SaidElsewhere } from '@weighbridge/domain';
import type { TraceHeaders } from '@weighbridge/runtime';
import type { AttemptEnd, OutcomeAndStatus } from '@weighbridge/usage';
import type { Operation } from '../formats/operation.ts';
import type { Endpoint } from './endpoints.ts';
import type { ObservedAttempt, ObservedModelRequest } from './observedAttempt.ts';
import type { RequestOutcome } from './outcomes.ts';

/** The key of a request, as far as it is observed. */
interface ObservedKey {
  readonly id: string;
  readonly principalId: string;
  readonly teamId?: string;
  readonly attribution: LockedAttribution;
  /** The governing policy first. */
  readonly policies: readonly { readonly bucket: { readonly policyId: string } }[];
}

/** The spans of one request. */
export interface RequestTrace {
  /** Undefined if the trace is not sampled. */
  readonly traceId: string | undefined;
  /** Begins the span of an attempt; returns its trace headers for the vendor. */
  attempt(operation: Operation, attempt: ObservedAttempt): TraceHeaders;
  /** Ends the span of an attempt. Unbilled attempts have no usage and no cost; `output` is what the model wrote. */
  attemptEnded(end: OutcomeAndStatus & Partial<AttemptEnd>, output?: () => string): void;
  ended(observed: RequestObservation, outcome: RequestOutcome): void;
}

interface SettledAttempt {
  readonly modelRequest: ObservedModelRequest;
  readonly end: AttemptEnd;
  /** Monotonic, in milliseconds. */
  readonly at: number;
}

/** Facts about one request, collected while it runs; reported to metrics, log and traces at its end. */
export interface RequestObservation {
  readonly id: string;
  readonly endpoint: Endpoint;
  /** Monotonic, in milliseconds. */
  readonly receivedAt: number;
  /** Undefined until the request is authenticated. */
  key: ObservedKey | undefined;
  /** What it says of whom it is for, beside the headers of this service. */
  saidElsewhere: SaidElsewhere | undefined;
  streamed: boolean;
  /** As the request names it; empty until that is read. */
  modelRequested: string;
  /** The model of the last attempt, or of the plan before it; empty if none was chosen. */
  model: string;
  connectorId: string;
  attempts: number;
  lastAttempt: OutcomeAndStatus | undefined;
  /** The last attempt, until it is counted: before the next one, or after the answer, which does not wait for that. */
  settled: SettledAttempt | undefined;
  /** It was answered. */
  isOver: boolean;
  /** Set if it is known before the request ends. */
  outcome: RequestOutcome | undefined;
  /** Time until the response began, without the time spent waiting for vendors. */
  overheadMs: number | undefined;
  /** Of the streamed response that the client got. Monotonic, in milliseconds. */
  firstChunkAt: number | undefined;
  /** Cost and tokens of all attempts. */
  costNanoUsd: bigint;
  inputTokens: number;
  outputTokens: number;
  /** The HTTP status that the client got; 0 if it is not known. */
  status: number;
  /** Undefined if tracing is off. */
  trace: RequestTrace | undefined;
  /** The code of the error that this service answered with; empty if there was none. */
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
    saidElsewhere: undefined,
    streamed: false,
    modelRequested: '',
    model: '',
    connectorId: '',
    attempts: 0,
    lastAttempt: undefined,
    settled: undefined,
    isOver: false,
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

/** The id of the key's governing policy. */
export function policyOf({ key }: Pick<RequestObservation, 'key'>): string {
  return key?.policies[0]?.bucket.policyId ?? 'none';
}
