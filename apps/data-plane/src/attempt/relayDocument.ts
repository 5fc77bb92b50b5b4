import { microFromNano, type NanoUsd } from '@weighbridge/domain';
import {
  decodeBody,
  type Encoding,
  encodingOf,
  isSupported,
  undecodable,
} from '../formats/contentEncoding.ts';
import { DocumentReader, factsOf } from '../formats/documentReader.ts';
import { type ResponseFacts, type ResponseFormat, textOfBody } from '../formats/responseFormat.ts';
import { upstreamError } from '../upstream/upstreamErrors.ts';
import type { Output } from './charge.ts';
import { sendFailure } from './errorResponse.ts';
import { OwnershipHold, tooManyNamed } from './ownershipHold.ts';
import { redactBody, redactHeaders } from './redactCredential.ts';
import { contentTypeOf, failedRequest, isCacheable, MAX_HELD_BYTES, outcomeOf, type Relay } from './relay.ts';
import { writeHead, writeMessage } from './writeHead.ts';

/** A compressed response that is held is decoded up to this size; a larger one is read in pieces. */
const MAX_DECODED_BYTES = 8 * 1024 * 1024;

/** Passes on a response that is one JSON document, or anything else that is no stream of events. */
export async function relayDocument(relay: Relay): Promise<void> {
  const { attempt, response, client } = relay;
  const reading = new DocumentReading(relay).read();
  const read = reading instanceof Promise ? await reading : reading;
  let { failure } = read;
  const { body, plain, facts, firstByteAt, output } = read;
  if (response.status < 300 && failure === undefined && relay.ownership) {
    if (facts.unreadable) failure = undecodable();
    else if (facts.objects?.isFull) failure = tooManyNamed();
    // Of a large response, all but its last part is recorded already.
    else failure = await relay.ownership.save(facts)?.then(() => undefined, reasonOf);
  }
  const outcome = outcomeOf(relay, failure, facts.failed);
  const settling = attempt.settle({ outcome, facts, firstByteAt, output, isDocument: true });
  const cost = settling instanceof Promise ? await settling : settling;
  if (response.status < 300) relay.onRead?.(facts);

  if (client.hasDisconnected) return;
  if (failure) {
    const error = upstreamError(failure, attempt.prepared.connector.provider);
    return sendFailure(failedRequest(relay), error, { emitsPlainText: false });
  }
  if (!body) {
    await read.large?.writeRest();
    return void client.response.end();
  }
  writeWhole(relay, response.status < 400 ? body : redactedError(relay, body, plain), cost);
  if (isCacheable(relay, outcome))
    relay.capture?.endBody(plain, contentTypeOf(response) ?? 'application/json');
}

interface ReadResponse {
  /** Undefined if the response was passed on already, because it was too large to be held. */
  readonly body: Buffer | undefined;
  /** Set if `body` is not; its end is written once the response is settled. */
  readonly large: LargeDocument | undefined;
  /** The body, decoded; undefined if it can't be. */
  readonly plain: Buffer | undefined;
  readonly facts: ResponseFacts;
  readonly firstByteAt: number | undefined;
  readonly output: () => Output;
  readonly failure: unknown;
}

/** Collects the response; passes it on once it is too large to be held. */
class DocumentReading {
  readonly #relay: Relay;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;
  #firstByteAt: number | undefined;
  #large: LargeDocument | undefined;
  #failure: unknown;

  constructor(relay: Relay) {
    this.#relay = relay;
  }

  /** A promise only if not all of the response is here, or it has to be decoded. To be called once. */
  read(): ReadResponse | Promise<ReadResponse> {
    const { body } = this.#relay.response;
    const collecting = body.forEachChunk((chunk) => this.#add(chunk));
    if (!collecting) return this.#result();
    return collecting
      .catch((error) => {
        this.#failure = error;
        body.destroy();
      })
      .then(() => this.#result());
  }

  #add(chunk: Buffer): Promise<void> | undefined {
    this.#firstByteAt ??= performance.now();
    this.#bytes += chunk.length;
    if (this.#large) return this.#large.pass(chunk);
    this.#chunks.push(chunk);
    if (this.#bytes <= MAX_HELD_BYTES && this.#relay.client.memory.tryTake(chunk.length)) return undefined;
    this.#large = new LargeDocument(this.#relay);
    return this.#large.pass(Buffer.concat(this.#chunks.splice(0)));
  }

  #result(): ReadResponse | Promise<ReadResponse> {
    if (this.#large) return this.#largeResult(this.#large);
    const { response, plan } = this.#relay;
    const [first] = this.#chunks;
    const body = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks);
    const encoding = encodingOf(response.headers['content-encoding']);
    return isSupported(encoding)
      ? readEncoded(this.#relay, encoding, body).then((held) => this.#heldResult(body, held))
      : this.#heldResult(body, readPlain(plan.operation.responseFormat, body));
  }

  #heldResult(body: Buffer, { plain, facts, output }: HeldResponse): ReadResponse {
    const firstByteAt = this.#firstByteAt;
    return { body, large: undefined, plain, facts, firstByteAt, output, failure: this.#failure };
  }

  async #largeResult(large: LargeDocument): Promise<ReadResponse> {
    const facts = await large.end();
    const unreadBytes = Math.max(this.#bytes, large.readBytes);
    const output = () => ({ text: '', ratio: 1, unreadBytes });
    const firstByteAt = this.#firstByteAt;
    const failure = large.failure ?? this.#failure;
    return { body: undefined, large, plain: undefined, facts, firstByteAt, output, failure };
  }
}

/** What a response that is held whole reports. */
type HeldResponse = Pick<ReadResponse, 'plain' | 'facts' | 'output'>;

function readPlain(format: ResponseFormat, plain: Buffer): HeldResponse {
  const output = () => ({ text: textOfBody(format, plain), ratio: 1 });
  return { plain, facts: factsOf(format, plain), output };
}

async function readEncoded(
  { response, client, plan }: Relay,
  encoding: Encoding,
  body: Buffer,
): Promise<HeldResponse> {
  const format = plan.operation.responseFormat;
  const plain = await decodeBody(encoding, body, MAX_DECODED_BYTES);
  if (plain) return readPlain(format, plain);
  const reader = new DocumentReader(format, response.headers['content-encoding'], client.memory);
  await reader.push(body);
  const facts = await reader.end();
  const unreadBytes = Math.max(body.length, reader.readBytes);
  return { plain, facts, output: () => ({ text: '', ratio: 1, unreadBytes }) };
}

/** Passes on a response that is too large to be held, and reads it meanwhile. */
class LargeDocument {
  readonly #relay: Relay;
  readonly #reader: DocumentReader;
  /** Set if the owner must be saved before the client sees a byte. */
  readonly #hold: OwnershipHold | undefined;

  constructor(relay: Relay) {
    const { response, plan, client, ownership } = relay;
    this.#relay = relay;
    this.#reader = new DocumentReader(
      plan.operation.responseFormat,
      response.headers['content-encoding'],
      client.memory,
    );
    this.#hold = ownership && response.status < 300 ? new OwnershipHold(this.#reader, ownership) : undefined;
  }

  pass(chunk: Buffer): Promise<void> | undefined {
    const reading = this.#reader.push(chunk);
    return reading ? reading.then(() => this.#write(chunk)) : this.#write(chunk);
  }

  /** Why the client must not get it. */
  get failure(): unknown {
    return this.#hold?.failure;
  }

  /** How much of it was read, decoded. */
  get readBytes(): number {
    return this.#reader.readBytes;
  }

  async end(): Promise<ResponseFacts> {
    await this.#hold?.saved();
    return await this.#reader.end();
  }

  /** What is still held: a response that is short after all may name its id at its end only, or not at all. */
  writeRest(): Promise<void> | undefined {
    this.#begin();
    return this.#hold && this.#relay.client.write(this.#hold.rest());
  }

  #write(chunk: Buffer): Promise<void> | undefined {
    const { client } = this.#relay;
    if (this.#hold) return this.#hold.write(chunk, client, () => this.#begin());
    this.#begin();
    return client.write(chunk);
  }

  #begin(): void {
    const { client, response, headers } = this.#relay;
    if (client.response.headersSent || client.hasDisconnected) return;
    writeHead(client.response, response.status, headers.list);
  }
}

/** Writes a response that is held whole, and settled. */
export function writeWhole(
  { attempt, response, client, headers }: Relay,
  body: Buffer,
  cost: NanoUsd | undefined,
  status = response.status,
): void {
  // What is not billed costs nothing. A superseded response shows no cost: it was settled as another attempt.
  const shown = cost ?? (attempt.isBilled ? undefined : 0n);
  if (shown !== undefined && status < 300) {
    headers.list.push('x-svc-cost-micro-usd', String(microFromNano(shown)));
  }
  headers.list.push('content-length', String(body.length));
  writeMessage(client.response, status, headers.list, body);
}

/** A vendor's error without the connector's credential, which it may repeat. */
function redactedError({ headers, attempt }: Relay, body: Buffer, plain: Buffer | undefined): Buffer {
  const credential = attempt.response.token ?? attempt.prepared.connector.credential;
  redactHeaders(headers, credential);
  const redacted = plain && redactBody(plain, credential);
  if (redacted === plain || redacted === undefined) return body;
  headers.delete('content-encoding');
  return redacted;
}

function reasonOf(error: unknown): unknown {
  return error ?? new Error('rejected without a reason');
}
