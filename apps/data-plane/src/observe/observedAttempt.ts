import type { Outcome } from '@weighbridge/contracts';
import type { NanoUsd, TokenUsage } from '@weighbridge/domain';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { RequestBody } from '../formats/requestBody.ts';

interface ObservedConnector {
  readonly id: string;
  readonly provider: string;
  readonly baseUrl: string;
}

/** A generation request for one model at one connector. */
export interface ObservedModelRequest {
  readonly model: { readonly id: string };
  readonly connector: ObservedConnector;
  readonly generation: GenerationRequest;
}

/** A request as it is sent to one connector. */
export interface ObservedAttempt {
  readonly connector: ObservedConnector;
  readonly body: RequestBody | undefined;
  /** Undefined if no model works on the request. */
  readonly modelRequest: ObservedModelRequest | undefined;
}

/** The outcome of an attempt, and the vendor's HTTP status: 0 if no response came. */
export interface OutcomeAndStatus {
  readonly outcome: Outcome;
  readonly status: number;
}

/** How an attempt ended, and what it is charged. Times are monotonic, in milliseconds. */
export interface AttemptEnd extends OutcomeAndStatus {
  readonly usage: TokenUsage;
  readonly costNanoUsd: NanoUsd;
  readonly estimated: boolean;
  readonly dispatchedAt: number;
  readonly firstByteAt: number | undefined;
  readonly responseId: string;
}
