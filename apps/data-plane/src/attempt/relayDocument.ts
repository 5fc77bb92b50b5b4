import { microFromNano, type NanoUsd } from '@weighbridge/domain';
import { decodeBody, type Encoding, encodingOf } from '../formats/contentEncoding.ts';
import { noFacts, type ResponseFormat, textOfBody } from '../formats/responseFormat.ts';
import { StreamTap } from '../formats/streamTap.ts';
import { upstreamError } from '../upstream/upstreamErrors.ts';
import { sendFailure } from './errorResponse.ts';
import { responseIdTooLate } from './ownershipHold.ts';
import { redactBody, redactHeaders } from './redactCredential.ts';
import { contentTypeOf, failedRequest, isCacheable, MAX_HELD_BYTES, outcomeOf, type Relay } from './relay.ts';

/** Up to this size, turning a body into a string takes less time than a second buffer in the write. */
const MAX_TEXT_BYTES = 4 * 1024;
/** A larger response is passed on without its usage being read. */
const MAX_READ_BYTES = 32 * 1024 * 1024;

/** Passes on a response that is one JSON document, or anything else that is no stream of events. */
export async function relayDocument(relay: Relay): Promise<void> {
  const { attempt, response, client } = relay;
  const format = relay.plan.operation.responseFormat;
  const { chunks, firstByteAt, failure: broken } = await readBody(relay);
  let failure = broken;

  const body = chunks.length === 1 && chunks[0] ? chunks[0] : Buffer.concat(chunks);
  const encoding = encodingOf(response.headers['content-encoding']);
  const plain = encoding === undefined ? body : await decoded(encoding, body);
  const facts = readFacts(format, failure ? undefined : plain);
  if (facts.responseId && relay.saveOwner && response.status < 300) {
    failure ??= await relay.saveOwner(facts.responseId).then(() => undefined, reasonOf);
  }
  const outcome = outcomeOf(relay, failure, facts.failed);
  const output = () => ({ text: textOfBody(format, plain ?? body), ratio: 1 });
  const cost = await attempt.settle({ outcome, facts, firstByteAt, output });

  if (client.hasDisconnected) return;
  if (failure) {
    const error = upstreamError(failure, attempt.prepared.connector.provider);
    return sendFailure(failedRequest(relay), error, { emitsPlainText: false });
  }
  if (client.response.headersSent) return void client.response.end();
  writeWhole(relay, response.status < 400 ? body : redactedError(relay, body, plain), cost);
  if (isCacheable(relay, outcome))
    relay.capture?.endBody(plain, contentTypeOf(response) ?? 'application/json');
}

interface ReadBody {
  /** Empty beyond what is read. */
  readonly chunks: readonly Buffer[];
  readonly firstByteAt: number | undefined;
  readonly failure: unknown;
}

/** Collects the body; passes it on once it is too large to be held. */
async function readBody({ response, client, headers, saveOwner }: Relay): Promise<ReadBody> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let firstByteAt: number | undefined;
  try {
    await response.body.forEachChunk((chunk) => {
      firstByteAt ??= performance.now();
      bytes += chunk.length;
      if (bytes <= MAX_READ_BYTES) chunks.push(chunk);
      else chunks.length = 0;
      // The owner must be saved before the client sees a byte, so such a response is held whole.
      if (saveOwner && bytes > MAX_READ_BYTES) throw responseIdTooLate();
      if (saveOwner || bytes <= MAX_HELD_BYTES) return undefined;
      const due = client.response.headersSent ? chunk : Buffer.concat(chunks);
      if (!client.response.headersSent && !client.hasDisconnected)
        client.response.writeHead(response.status, headers.list);
      return client.write(due);
    });
    return { chunks, firstByteAt, failure: undefined };
  } catch (failure) {
    response.body.destroy();
    return { chunks, firstByteAt, failure };
  }
}

function writeWhole({ response, client, headers }: Relay, body: Buffer, cost: NanoUsd | undefined): void {
  if (cost !== undefined && response.status < 300) {
    headers.list.push('x-svc-cost-micro-usd', String(microFromNano(cost)));
  }
  headers.list.push('content-length', String(body.length));
  client.response.writeHead(response.status, headers.list);
  // A string goes out in one write with the head.
  if (body.length <= MAX_TEXT_BYTES) client.response.end(body.toString('latin1'), 'latin1');
  else client.response.end(body);
}

/** A vendor's error without the connector's credential, which it may repeat. */
function redactedError({ headers, attempt }: Relay, body: Buffer, plain: Buffer | undefined): Buffer {
  const { credential } = attempt.prepared.connector;
  redactHeaders(headers, credential);
  const redacted = plain && redactBody(plain, credential);
  if (redacted === plain || redacted === undefined) return body;
  headers.delete('content-encoding');
  return redacted;
}

async function decoded(encoding: Encoding | 'unknown', body: Buffer): Promise<Buffer | undefined> {
  return encoding === 'unknown' ? undefined : await decodeBody(encoding, body, MAX_READ_BYTES);
}

function readFacts(format: ResponseFormat, body: Buffer | undefined) {
  const facts = noFacts();
  if (!body) return facts;
  format.readBody(body, facts);
  if (facts.usage || facts.responseId || body[0] === 0x7b) return facts;
  // A stream of events with another content type.
  const tap = new StreamTap({ format, hideUsage: false });
  tap.push(body);
  tap.end();
  return tap.facts;
}

function reasonOf(error: unknown): unknown {
  return error ?? new Error('rejected without a reason');
}
