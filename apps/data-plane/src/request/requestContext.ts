import type { IncomingHttpHeaders } from 'node:http';
import { type Attribution, NO_ATTRIBUTION, parseAttribution } from '@weighbridge/domain';
import { afterFallbacks, type ResolvedKey } from '@weighbridge/state';
import type { AttemptContext } from '../attempt/attempt.ts';
import type { ClientConnection } from '../attempt/clientConnection.ts';
import type { Plan } from '../attempt/plan.ts';
import type { KeyCache } from '../control/keyCache.ts';
import type { Dialect } from '../formats/operation.ts';
import type { Endpoint } from '../observe/endpoints.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import { authenticate, type Credentials } from './authenticate.ts';
import { withoutCredentials } from './credentials.ts';
import type { GenerationAction, StoredResponseAction } from './planRequest.ts';

/*
 * A request in its stages: `IncomingRequest` (its head), `InferenceRequest` (authenticated, with its body read as an `Action`),
 * and `RequestContext` (planned: what its attempts share). For each attempt, the plan prepares a `PreparedRequest`.
 */

/** What a request asks for: a generation by a model, or a response that a vendor stored. */
export type Action = GenerationAction | StoredResponseAction;

/** A request whose head has arrived. */
export interface IncomingRequest {
  readonly id: string;
  readonly dialect: Dialect;
  readonly endpoint: Endpoint;
  readonly headers: IncomingHttpHeaders;
  /** With the question mark; empty if there is none. */
  readonly query: string;
  /** Monotonic, in milliseconds. */
  readonly receivedAt: number;
  /** Reads the body; undefined if the client disconnected before its end. */
  readonly readAction: (key: ResolvedKey) => Action | Promise<Action | undefined>;
}

/** A request whose key is known and whose body has arrived. */
export interface InferenceRequest extends Omit<IncomingRequest, 'readAction'> {
  readonly key: ResolvedKey;
  readonly action: Action;
  readonly observed: RequestObservation;
}

interface ContextDeps {
  readonly keys: KeyCache;
  readonly now: () => Date;
}

/** What all attempts of one request share. */
export class RequestContext implements AttemptContext {
  readonly requestId: string;
  key: ResolvedKey;
  readonly attribution: Attribution;
  readonly modelRequested: string;
  readonly streamed: boolean;
  readonly admittedAtMs: number;
  readonly isBilled: boolean;
  readonly plan: Plan;
  readonly headers: IncomingHttpHeaders;
  readonly query: string;
  readonly client: ClientConnection;
  readonly observed: RequestObservation;
  readonly #deps: ContextDeps;
  readonly #credentials: Credentials;

  constructor(deps: ContextDeps, request: InferenceRequest, plan: Plan, client: ClientConnection) {
    const { key, headers } = request;
    const isBilled = plan.kind === 'generation' && plan.operation.isBilled;
    this.requestId = request.id;
    this.key = key;
    const { saidElsewhere } = request.observed;
    this.attribution = isBilled ? parseAttribution(headers, key.attribution, saidElsewhere) : NO_ATTRIBUTION;
    this.modelRequested = plan.kind === 'generation' ? plan.generation.model : '';
    this.streamed = plan.kind === 'generation' && plan.generation.stream;
    this.admittedAtMs = deps.now().getTime();
    this.isBilled = isBilled;
    this.plan = plan;
    this.headers = headers;
    this.query = withoutCredentials(request.query);
    this.client = client;
    this.observed = request.observed;
    this.#deps = deps;
    this.#credentials = request;
  }

  async refreshKey(): Promise<void> {
    const { keys, now } = this.#deps;
    const { fallbacks } = this.key;
    const key = await authenticate(keys, this.#credentials, now().getTime(), 'refresh');
    this.key = afterFallbacks(key, fallbacks);
    this.observed.key = this.key;
  }
}
