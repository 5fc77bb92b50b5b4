import type { Outcome } from '@weighbridge/contracts';
import type { NanoUsd, TokenUsage } from '@weighbridge/domain';
import type { RoutableConnector } from '../control/routingTable.ts';
import type { Target } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { RequestBody } from '../formats/requestBody.ts';

/** A request that is ready to be sent to one connector. */
export interface PreparedRequest {
  readonly connector: RoutableConnector;
  readonly body: RequestBody | undefined;
  /** Undefined for a stored response, which no model works on. */
  readonly modelRequest: ModelRequest | undefined;
}

/** A generation request for one model at one connector, with the limits that hold there. */
export interface ModelRequest extends Target {
  readonly generation: GenerationRequest;
}

/** How an attempt ended, and what it is charged. Times are monotonic, in milliseconds. */
export interface AttemptEnd {
  readonly usage: TokenUsage;
  readonly costNanoUsd: NanoUsd;
  readonly estimated: boolean;
  readonly outcome: Outcome;
  /** The HTTP status of the vendor; 0 where no response came. */
  readonly status: number;
  readonly dispatchedAt: number;
  readonly firstByteAt: number | undefined;
  readonly responseId: string;
}
