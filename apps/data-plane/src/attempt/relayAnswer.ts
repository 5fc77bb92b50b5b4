import type { Relay } from './relay.ts';
import { relayStream } from './relayStream.ts';
import { relayWhole } from './relayWhole.ts';

/** Passes an answer on to its end, settles it, and lets the caller see the end. */
export function relayAnswer(relay: Relay): Promise<void> {
  const relayed = isStream(relay) ? relayStream(relay) : relayWhole(relay);
  const { kept } = relay;
  return kept ? relayed.finally(() => kept.giveUp()) : relayed;
}

/** A vendor that was asked for a stream may label it wrongly; JSON is what it answers where it did not understand. */
function isStream({ answer, plan }: Relay): boolean {
  // An error is looked at as a whole, whatever it is labelled.
  if (answer.status >= 400) return false;
  const type = String(answer.headers['content-type'] ?? '').toLowerCase();
  if (type.startsWith('text/event-stream')) return true;
  return (
    plan.kind === 'generation' &&
    plan.call.stream &&
    answer.status < 300 &&
    !/^application\/([\w.+-]+\+)?json/.test(type)
  );
}
