import type { RoutableConnector } from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import type { GenerationRequest } from '../formats/generationRequest.ts';
import type { RequestBody } from '../formats/requestBody.ts';
import type { AttemptTranslation } from '../translation/requestTranslation.ts';

/** A request that is ready to be sent to one connector. */
export interface PreparedRequest {
  readonly connector: RoutableConnector;
  /** Below the base URL of the vendor's own API; undefined: the path of the plan, below the connector's base URL. */
  readonly nativePath?: string;
  readonly body: RequestBody | undefined;
  /** Undefined for a stored response, which no model works on. */
  readonly modelRequest: ModelRequest | undefined;
  /** Undefined if the vendor speaks the caller's dialect: the bytes pass. */
  readonly translation?: AttemptTranslation | undefined;
}

/** A generation request for one model at one connector, with the limits that hold there. */
export interface ModelRequest extends Target {
  readonly generation: GenerationRequest;
  /** The other models that the request names: any of them may answer, at its own price. Default: none. */
  readonly alternatives?: readonly Target[];
  /** The ids of the models of its tools, if a further limit may count them: they work on the response too. Default: none. */
  readonly toolModels?: readonly string[];
}
