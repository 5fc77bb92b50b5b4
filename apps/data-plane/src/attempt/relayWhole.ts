import { microFromNano } from '@weighbridge/domain';
import { type AnswerFormat, noFacts } from '../formats/answerFormat.ts';
import { decodeWhole, type Encoding, encodingOf } from '../formats/contentEncoding.ts';
import { textOfWhole } from '../formats/heldAnswer.ts';
import { StreamTap } from '../formats/streamTap.ts';
import { upstreamError } from '../upstream/upstreams.ts';
import { tellFailure } from './failure.ts';
import { tooLargeToRecord } from './heldUntilRecorded.ts';
import { hideCredential, withoutCredential } from './hideCredential.ts';
import { contentTypeOf, isKept, MAX_HELD_BYTES, outcomeOf, type Relay } from './relay.ts';

/** Up to here, making a text of a body takes less than a second buffer in a write does. */
const MAX_TEXT_BYTES = 4 * 1024;
/** An answer beyond this size is passed on without being read for its usage. */
const MAX_READ_BYTES = 32 * 1024 * 1024;

/** Passes on an answer that is one JSON document, or whatever else is no stream of events. */
export async function relayWhole(relay: Relay): Promise<void> {
  const { answer, caller, headers } = relay;
  const format = relay.plan.operation.answer;
  const { response } = caller;
  const chunks: Buffer[] = [];
  let bytes = 0;
  let firstByteAt: number | undefined;
  let failure: unknown;
  try {
    await answer.body.each((chunk) => {
      firstByteAt ??= performance.now();
      bytes += chunk.length;
      if (bytes <= MAX_READ_BYTES) chunks.push(chunk);
      else chunks.length = 0;
      // Whose it is must be on record before a byte of it goes out: such an answer is held whole.
      if (relay.record && bytes > MAX_READ_BYTES) throw tooLargeToRecord();
      if (relay.record || bytes <= MAX_HELD_BYTES) return undefined;
      const due = response.headersSent ? chunk : Buffer.concat(chunks);
      if (!response.headersSent && !caller.hasLeft) response.writeHead(answer.status, headers.list);
      return caller.write(due);
    });
  } catch (error) {
    failure = error;
    answer.body.destroy();
  }

  const body = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
  const encoding = encodingOf(answer.headers['content-encoding']);
  const plain = encoding === undefined ? body : await decoded(encoding, body);
  const facts = readWhole(format, failure ? undefined : plain);
  if (facts.responseId && relay.record && answer.status < 300) {
    failure ??= await relay.record(facts.responseId).then(() => undefined, reasonOf);
  }
  const outcome = outcomeOf(relay, failure, facts.failed);
  const cost = await relay.attempts.settle({
    dispatchedAt: relay.dispatchedAt,
    outcome,
    status: answer.status,
    facts,
    firstByteAt,
    output: () => ({ text: textOfWhole(format, plain ?? body), ratio: 1 }),
  });

  if (caller.hasLeft) return;
  if (failure)
    return tellFailure(relay, upstreamError(failure, relay.outgoing.connector.provider), {
      passesText: false,
    });
  if (response.headersSent) return void response.end();
  if (cost !== undefined && answer.status < 300) {
    headers.list.push('x-svc-cost-micro-usd', String(microFromNano(cost)));
  }
  const shown = answer.status < 400 ? body : shownError(relay, body, plain);
  headers.list.push('content-length', String(shown.length));
  response.writeHead(answer.status, headers.list);
  // As a text, it goes out together with the head.
  if (shown.length <= MAX_TEXT_BYTES) response.end(shown.toString('latin1'), 'latin1');
  else response.end(shown);
  if (isKept(relay, outcome)) relay.kept?.endWhole(plain, contentTypeOf(answer) ?? 'application/json');
}

/** An error as its caller may see it: without the vendor's credential, which is ours. */
function shownError({ headers, outgoing }: Relay, body: Buffer, plain: Buffer | undefined): Buffer {
  const { credential } = outgoing.connector;
  hideCredential(headers, credential);
  const hidden = plain && withoutCredential(plain, credential);
  if (hidden === plain || hidden === undefined) return body;
  headers.delete('content-encoding');
  return hidden;
}

async function decoded(encoding: Encoding | 'unknown', body: Buffer): Promise<Buffer | undefined> {
  return encoding === 'unknown' ? undefined : await decodeWhole(encoding, body, MAX_READ_BYTES);
}

function readWhole(format: AnswerFormat, body: Buffer | undefined) {
  const facts = noFacts();
  if (!body) return facts;
  format.readWhole(body, facts);
  if (facts.usage || facts.responseId || body[0] === 0x7b) return facts;
  // A stream of events that calls itself something else.
  const tap = new StreamTap({ format, hideUsage: false });
  tap.push(body);
  tap.end();
  return tap.facts;
}

function reasonOf(error: unknown): unknown {
  return error ?? new Error('rejected without a reason');
}
