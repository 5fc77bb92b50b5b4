import { AnswerReader } from '../formats/answerReader.ts';
import { upstreamError } from '../upstream/upstreams.ts';
import { tellFailure } from './failure.ts';
import { HeldUntilRecorded } from './heldUntilRecorded.ts';
import { contentTypeOf, isKept, outcomeOf, type Relay } from './relay.ts';

const NOTHING = Buffer.alloc(0);

/** Passes on a stream of events as it comes. */
export async function relayStream(relay: Relay): Promise<void> {
  const { answer, caller, headers, plan, budget } = relay;
  const { response } = caller;
  const { hideUsage } = plan;
  const format = plan.operation.answer;
  const contentEncoding = answer.headers['content-encoding'];
  const reader = new AnswerReader({ format, hideUsage, contentEncoding, budget, onEvent: relay.kept?.add });
  if (reader.passesDecoded) headers.delete('content-encoding');
  let firstByteAt: number | undefined;
  let failure: unknown;
  const recorded = relay.record && new HeldUntilRecorded(reader, relay.record);
  const show = (shown: Buffer): Promise<void> | undefined =>
    recorded ? recorded.pass(shown, caller) : caller.write(shown);
  if (!caller.hasLeft) {
    response.writeHead(answer.status, headers.list);
    response.flushHeaders();
  }
  try {
    await answer.body.each((chunk) => {
      firstByteAt ??= performance.now();
      const passed = reader.push(chunk);
      return passed instanceof Promise ? passed.then(show) : show(passed);
    });
    await show(await reader.end());
    await caller.write(recorded?.rest() ?? NOTHING);
  } catch (error) {
    failure = error;
    answer.body.destroy();
  }

  const outcome = outcomeOf(relay, failure, reader.facts.failed);
  await relay.attempts.settle({
    dispatchedAt: relay.dispatchedAt,
    outcome,
    status: answer.status,
    facts: reader.facts,
    firstByteAt,
    output: () => reader.text(format),
  });
  const { passesText } = reader;
  reader.close();
  if (caller.hasLeft) return;
  if (failure) tellFailure(relay, upstreamError(failure, relay.outgoing.connector.provider), { passesText });
  else response.end();
  if (isKept(relay, outcome)) relay.kept?.endStream(contentTypeOf(answer) ?? 'text/event-stream');
}
