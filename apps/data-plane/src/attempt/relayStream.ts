import { toHttpError } from '@weighbridge/errors';
import { ARRAY_TYPE, EventsToArray } from '../formats/eventsToArray.ts';
import type { Span } from '../formats/scanJson.ts';
import { StreamReader } from '../formats/streamReader.ts';
import { StreamAnswer } from '../translation/streamAnswer.ts';
import { upstreamError } from '../upstream/upstreamErrors.ts';
import { isInputKnown, mostOutput } from './charge.ts';
import { isStreamCancelledIfLeft } from './disconnects.ts';
import { sendFailure } from './errorResponse.ts';
import { OwnershipHold } from './ownershipHold.ts';
import { contentTypeOf, failedRequest, isCacheable, outcomeOf, type Relay, servedOutcome } from './relay.ts';
import { writeHead } from './writeHead.ts';

const NOTHING = Buffer.alloc(0);
/** Of a translated stream that is cached, all callers see all. */
const NOT_HIDDEN: readonly Span[] = [];

/** Passes a stream of events on as it comes. */
export async function relayStream(relay: Relay): Promise<void> {
  const { attempt, response, client, headers, plan } = relay;
  const { translation } = attempt.prepared;
  const format = (translation?.operation ?? plan.operation).responseFormat;
  const answer =
    translation &&
    new StreamAnswer(translation, relay.requestId, { facts: () => reader.facts, memory: client.memory });
  const contentEncoding = response.headers['content-encoding'];
  const reader = new StreamReader({
    format,
    hideUsage: plan.hideUsage && !answer,
    decodes: plan.streamsArray || answer !== undefined,
    contentEncoding,
    memory: client.memory,
    onEvent: answer?.add ?? relay.capture?.add,
  });
  if (reader.emitsDecoded) headers.delete('content-encoding');
  const array = plan.streamsArray && reader.emitsPlainText ? new EventsToArray() : undefined;
  if (array) headers.set('content-type', ARRAY_TYPE);
  else if (answer) headers.set('content-type', 'text/event-stream; charset=utf-8');
  let firstByteAt: number | undefined;
  let failure: unknown;
  const hold = relay.ownership && new OwnershipHold(reader, relay.ownership);
  // The end has gone out: whoever closes now was served.
  let isServed = false;
  const noteServed = () => {
    isServed ||= (answer ?? reader.facts).isOver && !client.dropsBytes && !hold?.isSaving;
  };
  let isStored = false;
  const write = (bytes: Buffer): Promise<void> | undefined => {
    if (!answer) return send(bytes);
    const own = answer.take();
    if (own.length > 0) relay.capture?.add(own, NOT_HIDDEN);
    // Before the caller sees the end, after which it may continue by the id.
    const whole = relay.store && !isStored ? answer.whole : undefined;
    if (!whole) return send(own);
    isStored = true;
    return relay.store?.(whole).then(() => send(own));
  };
  const send = (own: Buffer): Promise<void> | undefined => {
    const shown = array ? array.push(own) : own;
    const writing = hold ? hold.write(shown, client) : client.write(shown);
    if (writing) return writing.then(noteServed);
    noteServed();
    return undefined;
  };
  if (!client.hasDisconnected) writeHead(client.response, response.status, headers.list);
  const left = new LeftStream(relay, reader, hold);
  try {
    const reading = response.body.forEachChunk((chunk) => {
      firstByteAt ??= performance.now();
      const passed = reader.push(chunk);
      left.check();
      return passed instanceof Promise ? passed.then(write) : write(passed);
    });
    // The head goes out with the first chunk, which has arrived already, unless that is held.
    client.flushHead();
    await reading;
    const rest = await reader.end();
    answer?.end();
    await write(rest);
    await hold?.saved();
    noteServed();
    await client.write(hold?.rest() ?? NOTHING);
  } catch (error) {
    failure = error;
    response.body.destroy();
    await hold?.saved();
  }

  failure = hold?.failure ?? (isServed ? undefined : failure);
  const outcome = isServed
    ? servedOutcome(relay, reader.facts.failed)
    : outcomeOf(relay, failure, reader.facts.failed);
  const { facts } = reader;
  const settling = attempt.settle({ outcome, facts, firstByteAt, output: () => reader.output(format) });
  if (settling instanceof Promise) await settling;
  if (answer) attempt.countUnknown(answer.unknown);
  if (response.status < 300) relay.onRead?.(reader.facts);
  const { emitsPlainText } = reader;
  reader.close();
  if (client.hasDisconnected) return;
  if (failure && !answer?.isOver) {
    const error = upstreamError(failure, attempt.prepared.connector.provider);
    if (answer && client.response.headersSent) endTranslated(relay, answer, { error, array });
    else sendFailure(failedRequest(relay), error, { emitsPlainText, array });
  } else client.response.end(array?.end());
  if (isCacheable(relay, outcome)) relay.capture?.endStream(contentTypeOf(response) ?? 'text/event-stream');
}

/** Ends a translated stream that has begun with an error, as the translator writes one: what it had open is closed. */
function endTranslated(
  { client, requestId }: Relay,
  answer: StreamAnswer,
  { error, array }: { readonly error: unknown; readonly array: EventsToArray | undefined },
): void {
  const { status, body } = toHttpError(error, requestId);
  answer.fail({ status, code: body.error.code, message: body.error.message });
  const last = answer.take();
  if (!array) return void client.response.end(last);
  client.response.write(array.push(last));
  client.response.end(array.end());
}

/** What becomes of a stream that its client leaves: cancelled, where that ends its cost; else read to its end, within limits. */
class LeftStream {
  readonly #relay: Relay;
  readonly #reader: StreamReader;
  /** Whether it may be cancelled now. */
  readonly #cancels: () => boolean;

  constructor(relay: Relay, reader: StreamReader, hold: OwnershipHold | undefined) {
    const { client, attempt } = relay;
    this.#relay = relay;
    this.#reader = reader;
    this.#cancels = cancelsIfLeft(relay, reader, hold);
    client.boundDrain(ANY_DRAIN_BYTES + mostOutput(attempt.prepared) * BYTES_PER_TOKEN);
    client.onDisconnect(() => this.check());
  }

  /** Of a stream that was read to its last word, only the end is missing. */
  check(): void {
    const { client } = this.#relay;
    if (!client.dropsBytes || this.#reader.facts.isFinal || !this.#cancels()) return;
    client.cancellation.cancel();
  }
}

/** More than an event takes for each of its tokens, and what a stream may have besides. */
const BYTES_PER_TOKEN = 2_048;
const ANY_DRAIN_BYTES = 1024 * 1024;

/** A background response goes on without its stream; its usage is asked for later, if its id and owner are known. */
function cancelsIfLeft(
  { attempt }: Relay,
  reader: StreamReader,
  hold: OwnershipHold | undefined,
): () => boolean {
  const { prepared } = attempt;
  const isBackground = prepared.modelRequest?.generation.isBackground ?? false;
  if (isBackground) return () => hold?.isSaved ?? true;
  return () => isStreamCancelledIfLeft(prepared, isInputKnown(reader.facts));
}
