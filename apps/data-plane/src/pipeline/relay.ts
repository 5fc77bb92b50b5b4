import { Outcome } from '@weighbridge/contracts';
import { microFromNano } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { type AnswerFormat, noFacts } from '../answer/answerFormat.ts';
import { AnswerReader } from '../answer/answerReader.ts';
import { type HoldBudget, textOfWhole } from '../answer/heldAnswer.ts';
import { StreamTap } from '../answer/streamTap.ts';
import type { KeptAnswer } from '../cache/caching.ts';
import { decodeWhole, type Encoding, encodingOf } from '../upstream/contentEncoding.ts';
import type { UpstreamAnswer } from '../upstream/exchange.ts';
import { upstreamError } from '../upstream/upstreams.ts';
import type { AnswerHeaders } from './answerHeaders.ts';
import type { Answered } from './attempt.ts';
import type { AttemptLog } from './attemptLog.ts';
import type { Caller } from './caller.ts';
import { tellFailure } from './failure.ts';
import { hideCredential, withoutCredential } from './hideCredential.ts';
import type { Plan } from './plan.ts';

/** What passes an answer on to its caller. */
export interface Relay extends Answered {
  readonly plan: Plan;
  readonly caller: Caller;
  readonly headers: AnswerHeaders;
  readonly requestId: string;
  readonly budget: HoldBudget;
  /** Says whose the answer is, before the caller learns its id; undefined where the vendor does not keep it. */
  readonly record: ((responseId: string) => Promise<void>) | undefined;
  /** Undefined where the answer is not to be given again. */
  readonly kept: KeptAnswer | undefined;
  /** Settled once. The caller sees the end of the answer only after that. */
  readonly attempts: Pick<AttemptLog, 'settle'>;
}

const NOTHING = Buffer.alloc(0);
/** Up to here, making a text of a body takes less than a second buffer in a write does. */
const MAX_TEXT_BYTES = 4 * 1024;
/** An answer up to this size is held until it is complete, so that its cost can stand in a header. */
const MAX_HELD_BYTES = 1024 * 1024;
/** An answer beyond this size is passed on without being read for its usage. */
const MAX_READ_BYTES = 32 * 1024 * 1024;

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

/** Passes on an answer that is one JSON document, or whatever else is no stream of events. */
async function relayWhole(relay: Relay): Promise<void> {
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

/** Passes on a stream of events as it comes. */
async function relayStream(relay: Relay): Promise<void> {
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

/** Of a stream that is put on record: whose it is must be, before the caller learns its id. */
class HeldUntilRecorded {
  readonly #reader: Pick<AnswerReader, 'facts'>;
  readonly #record: (responseId: string) => Promise<void>;
  #isRecorded = false;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;

  constructor(reader: Pick<AnswerReader, 'facts'>, record: (responseId: string) => Promise<void>) {
    this.#reader = reader;
    this.#record = record;
  }

  pass(shown: Buffer, caller: Caller): Promise<void> | undefined {
    if (this.#isRecorded) return caller.write(shown);
    this.#waiting.push(shown);
    this.#waitingBytes += shown.length;
    if (this.#waitingBytes > MAX_HELD_BYTES) throw tooLargeToRecord();
    const { responseId } = this.#reader.facts;
    return responseId === '' ? undefined : this.#recordAndWrite(responseId, caller);
  }

  /** What waits still, of a stream that never told its id. */
  rest(): Buffer {
    const waiting = this.#waiting;
    this.#waiting = [];
    return Buffer.concat(waiting);
  }

  async #recordAndWrite(responseId: string, caller: Caller): Promise<void> {
    await this.#record(responseId);
    this.#isRecorded = true;
    await caller.write(this.rest());
  }
}

/** What else an answer has to be, its content says. */
function isKept({ answer }: Relay, outcome: Outcome): boolean {
  return outcome === Outcome.SUCCESS && answer.status === 200;
}

function contentTypeOf({ headers }: UpstreamAnswer): string | undefined {
  return headers['content-type']?.toString();
}

function outcomeOf({ caller, answer }: Relay, failure: unknown, hasFailed: boolean): Outcome {
  // Where this service stopped listening, the vendor did nothing wrong.
  if (caller.hasLeft) return Outcome.CLIENT_GONE;
  if (failure) return Outcome.INTERRUPTED;
  return hasFailed || answer.status >= 300 ? Outcome.UPSTREAM_ERROR : Outcome.SUCCESS;
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

function tooLargeToRecord(): AppError {
  const message = 'The response does not tell its id early enough to be recorded, so it is not given out.';
  return new AppError('upstream', 'response_not_recorded', message, {
    headers: { 'x-should-retry': 'false' },
  });
}

function reasonOf(error: unknown): unknown {
  return error ?? new Error('rejected without a reason');
}
