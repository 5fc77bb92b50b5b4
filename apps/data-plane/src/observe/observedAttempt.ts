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
