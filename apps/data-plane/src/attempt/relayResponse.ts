import type { Relay } from './relay.ts';
import { relayDocument } from './relayDocument.ts';
import { relayStream } from './relayStream.ts';

/** Passes a response on to its end, settles the attempt, and lets the client see the end. */
export function relayResponse(relay: Relay): Promise<void> {
  const relayed = isStream(relay) ? relayStream(relay) : relayDocument(relay);
  const { capture } = relay;
  return capture ? relayed.finally(() => capture.discard()) : relayed;
}

/** Vendors mislabel streams; they answer a JSON document if they did not understand the request. */
function isStream({ response, plan }: Relay): boolean {
  // An error is read whole, whatever its type.
  if (response.status >= 400) return false;
  const type = String(response.headers['content-type'] ?? '').toLowerCase();
  if (type.startsWith('text/event-stream')) return true;
  return (
    plan.kind === 'generation' &&
    plan.generation.stream &&
    response.status < 300 &&
    !/^application\/([\w.+-]+\+)?json/.test(type)
  );
}
