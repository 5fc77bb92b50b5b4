import {
  readCount,
  SseSplitter,
  StreamFolder,
  type TranslatedAnswer,
  translateDocument,
  translateError,
  writeCount,
} from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { decodeBody, encodingOf, isSupported, undecodable } from '../formats/contentEncoding.ts';
import { factsOf } from '../formats/documentReader.ts';
import { noFacts, type ResponseFacts, textOfBody } from '../formats/responseFormat.ts';
import { answerOptions } from '../translation/answerOptions.ts';
import type { AttemptTranslation } from '../translation/requestTranslation.ts';
import { upstreamError } from '../upstream/upstreamErrors.ts';
import { sendFailure } from './errorResponse.ts';
import { redactBody } from './redactCredential.ts';
import { failedRequest, isCacheable, outcomeOf, type Relay } from './relay.ts';
import { writeWhole } from './relayDocument.ts';

/** A translated document is held whole. */
const MAX_DOCUMENT_BYTES = 32 * 1024 * 1024;
const OPEN_BRACE = 0x7b;

/** Translates a response that is one JSON document, or an error, for the caller. */
export async function relayTranslated(relay: Relay, translation: AttemptTranslation): Promise<void> {
  const { attempt, client, headers } = relay;
  const format = translation.operation.responseFormat;
  const read = await readWhole(relay);
  const { plain, firstByteAt, bytes } = read;
  const facts = plain ? factsOf(format, plain) : noFacts();
  facts.unreadable ||= !plain;
  const failure = read.failure ?? (plain ? undefined : undecodable());
  const outcome = outcomeOf(relay, failure, facts.failed);
  const output = () =>
    plain ? { text: textOfBody(format, plain), ratio: 1 } : { text: '', ratio: 1, unreadBytes: bytes };
  const cost = await attempt.settle({ outcome, facts, firstByteAt, output, isDocument: true });
  if (client.hasDisconnected) return;
  if (!plain || failure) {
    const error = upstreamError(failure, attempt.prepared.connector.provider);
    return sendFailure(failedRequest(relay), error, { emitsPlainText: false });
  }
  const { status, body, unknown } = translated(relay, translation, plain, facts);
  // Only an answer that is whole has what a conversation goes on from.
  if (relay.store && status === 200 && unknown) await relay.store(body);
  if (unknown) attempt.countUnknown(unknown);
  headers.set('content-type', 'application/json; charset=utf-8');
  const written = Buffer.from(body);
  writeWhole(relay, written, cost, status);
  if (isCacheable(relay, outcome) && status === 200) relay.capture?.endBody(written, 'application/json');
}

function translated(
  { attempt, response, requestId }: Relay,
  translation: AttemptTranslation,
  plain: Buffer,
  facts: ResponseFacts,
): Pick<TranslatedAnswer, 'status' | 'body'> & Partial<Pick<TranslatedAnswer, 'unknown'>> {
  const { from, to } = translation.answer;
  if (response.status >= 300) {
    const error = redactBody(plain, attempt.prepared.connector.credential).toString('utf8');
    return { status: response.status, body: translateError(error, response.status, from, to) };
  }
  if (translation.operation.isCounter) {
    // Converse counts nothing.
    const tokens = from === 'converse' ? undefined : readCount(from, plain.toString('utf8'));
    // A vendor without its counter may answer anything.
    if (tokens === undefined) return { status: 502, body: translateError('', 502, from, to) };
    return { status: 200, body: writeCount(to, tokens) };
  }
  const options = answerOptions(translation, requestId, () => facts);
  if (firstByte(plain) === OPEN_BRACE) return translateDocument(plain.toString('utf8'), options);
  // Some vendors stream whether asked to or not.
  const splitter = new SseSplitter();
  const folder = new StreamFolder(options);
  for (const event of splitter.push(plain)) folder.push(event);
  folder.push(splitter.rest());
  return folder.end();
}

function firstByte(bytes: Buffer): number | undefined {
  return bytes.find((byte) => byte > 0x20);
}

interface WholeResponse {
  /** Decoded; undefined if it is not whole, or can't be decoded. */
  readonly plain: Buffer | undefined;
  readonly bytes: number;
  readonly firstByteAt: number | undefined;
  readonly failure: unknown;
}

async function readWhole({ response, client }: Relay): Promise<WholeResponse> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  let firstByteAt: number | undefined;
  let failure: unknown;
  try {
    await response.body.forEachChunk((chunk) => {
      firstByteAt ??= performance.now();
      bytes += chunk.length;
      if (bytes > MAX_DOCUMENT_BYTES || !client.memory.tryTake(chunk.length)) throw tooLarge();
      chunks.push(chunk);
      return undefined;
    });
  } catch (error) {
    failure = error;
    response.body.destroy();
  }
  if (failure !== undefined) return { plain: undefined, bytes, firstByteAt, failure };
  const body = Buffer.concat(chunks);
  const encoding = encodingOf(response.headers['content-encoding']);
  const plain = isSupported(encoding) ? await decodeBody(encoding, body, MAX_DOCUMENT_BYTES) : body;
  return { plain, bytes, firstByteAt, failure };
}

function tooLarge(): AppError {
  const message = 'The response of the vendor is too large to be translated now. Ask for a stream.';
  return new AppError('upstream', 'response_too_large', message);
}
