import { encodingOf, undecodable } from '../formats/contentEncoding.ts';
import { noFacts } from '../formats/responseFormat.ts';
import { sendFailure } from './errorResponse.ts';
import { failedRequest, outcomeOf, type Relay } from './relay.ts';
import { relayDocument } from './relayDocument.ts';
import { relayStream } from './relayStream.ts';
import { relayTranslated } from './relayTranslated.ts';

/** Passes a response on to its end, settles the attempt, and lets the client see the end. */
export function relayResponse(relay: Relay): Promise<void> {
  const relayed = chooseRelay(relay)(relay);
  const { capture } = relay;
  return capture ? relayed.finally(() => capture.discard()) : relayed;
}

function chooseRelay(relay: Relay): (relay: Relay) => Promise<void> {
  const encoding = relay.response.headers['content-encoding'];
  if (encoding !== undefined && encodingOf(encoding) === 'unknown') return refuseUnread;
  const { translation } = relay.attempt.prepared;
  if (!translation) return isStream(relay) ? relayStream : relayDocument;
  // Who asked for a document gets one, whatever the vendor sent.
  return translation.answer.stream && isStream(relay)
    ? relayStream
    : (one) => relayTranslated(one, translation);
}

/**
 * No vendor is asked for an encoding that this service can't read. A response in one may contain ids whose owner is not recorded, or a
 * credential, so it is refused. It costs its reservation, as an attempt that broke off before it began.
 */
async function refuseUnread(relay: Relay): Promise<void> {
  const { attempt, response, client } = relay;
  response.body.destroy();
  const error = undecodable();
  const output = () => ({ text: '', ratio: 1 });
  const outcome = outcomeOf(relay, error, false);
  await attempt.settle({ outcome, facts: noFacts(), firstByteAt: undefined, output, isDocument: true });
  if (!client.hasDisconnected) sendFailure(failedRequest(relay), error, { emitsPlainText: false });
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
