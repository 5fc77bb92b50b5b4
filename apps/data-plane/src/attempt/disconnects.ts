import { type Connector, OnDisconnect } from '@weighbridge/contracts';
import { endsWithItsCost } from './hiddenUsage.ts';
import type { PreparedRequest } from './preparedRequest.ts';

/**
 * Providers that stop generating, and billing, once the connection is closed
 * (https://openrouter.ai/docs/api-reference/streaming#stream-cancellation, as of 2026-11). Of any other, a stream is read to
 * its end, since it is billed to its end.
 */
const STOPS_BILLING: ReadonlySet<string> = new Set([
  'anthropic',
  'azure',
  'cohere',
  'deepinfra',
  'deepseek',
  'fireworks',
  'openai',
  'together',
  'xai',
]);

/** Whether a stream that its client left is cancelled, because the vendor then bills no more than it has sent. */
export function stopsBillingOnDisconnect({
  provider,
  onDisconnect,
}: Pick<Connector, 'provider' | 'onDisconnect'>): boolean {
  if (onDisconnect === OnDisconnect.CANCEL) return true;
  return onDisconnect !== OnDisconnect.DRAIN && STOPS_BILLING.has(provider);
}

/**
 * Whether a stream is cancelled once its client has left: where that ends its cost, unless only its end tells what it has cost
 * by then. An operator who has set `cancel` has it cancelled all the same. `isInputKnown`: the vendor has reported the input.
 */
export function isStreamCancelledIfLeft(prepared: PreparedRequest, isInputKnown: boolean): boolean {
  const { connector } = prepared;
  if (!stopsBillingOnDisconnect(connector)) return false;
  return connector.onDisconnect === OnDisconnect.CANCEL || !endsWithItsCost(prepared, isInputKnown);
}

/**
 * Whether a request whose client leaves before the answer begins is cancelled. A vendor that stops with a stream does not stop with
 * a document: that is generated, and billed, to its end, so it is read to its end for its usage. A background response goes on too,
 * and only its id, which comes first, tells what it cost.
 */
export function isCancelledIfLeft(prepared: PreparedRequest): boolean {
  const { modelRequest } = prepared;
  if (!modelRequest?.generation.stream || modelRequest.generation.isBackground) return false;
  return isStreamCancelledIfLeft(prepared, false);
}
