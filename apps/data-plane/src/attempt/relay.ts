import { Outcome } from '@weighbridge/contracts';
import type { CacheFill } from '../cache/streamCapture.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import type { AnswerOwnership } from './answerOwnership.ts';
import type { Attempt } from './attempt.ts';
import type { ClientConnection } from './clientConnection.ts';
import type { Plan } from './plan.ts';
import type { ResponseHeaders } from './responseHeaders.ts';

/** What passing a response on to the client takes. */
export interface Relay {
  /** The relay settles it before the HTTP response to the client ends; one that was superseded is settled already. */
  readonly attempt: Attempt;
  readonly response: UpstreamResponse;
  readonly plan: Plan;
  readonly client: ClientConnection;
  readonly headers: ResponseHeaders;
  readonly requestId: string;
  /** Records who owns what the response names, before the client learns of it; undefined if it names nothing that is stored. */
  readonly ownership: AnswerOwnership | undefined;
  /** Called with what a successful response reports, once it is settled; undefined if no one needs it. */
  readonly onRead: ((facts: ResponseFacts) => void) | undefined;
  /** Stores an answer, as the caller gets it, so that it can be continued; undefined if this service does not. */
  readonly store: ((response: string) => Promise<void>) | undefined;
  /** Undefined if the response is not cached. */
  readonly capture: CacheFill | undefined;
}

/** A response up to this size is held until it is complete, so that a header can show its cost. */
export const MAX_HELD_BYTES = 1024 * 1024;

/** Whether the cache may store the response, as far as its end and status say; the rest depends on its content. */
export function isCacheable({ response }: Relay, outcome: Outcome): boolean {
  return outcome === Outcome.SUCCESS && response.status === 200;
}

export function contentTypeOf({ headers }: UpstreamResponse): string | undefined {
  return headers['content-type']?.toString();
}

export function outcomeOf(relay: Relay, failure: unknown, hasFailed: boolean): Outcome {
  // The vendor did nothing wrong if this service stopped reading.
  if (relay.client.hasDisconnected) return Outcome.CLIENT_GONE;
  return failure ? Outcome.INTERRUPTED : servedOutcome(relay, hasFailed);
}

/** Of a response that the client has whole. */
export function servedOutcome({ response }: Relay, hasFailed: boolean): Outcome {
  return hasFailed || response.status >= 300 ? Outcome.UPSTREAM_ERROR : Outcome.SUCCESS;
}

/** Which request an error that ends the response belongs to. */
export function failedRequest({ client, plan: { operation }, requestId }: Relay) {
  return { client, operation, requestId };
}
