import { isDeepStrictEqual } from 'node:util';
import { eventData, SseSplitter } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { DocumentReader, factsOf } from '../../src/formats/documentReader.ts';
import { readGenerationRequest, upstreamBody, withModel } from '../../src/formats/generationRequest.ts';
import { JsonPruner } from '../../src/formats/jsonPruner.ts';
import { memberCuts } from '../../src/formats/memberCuts.ts';
import { pruneJson } from '../../src/formats/pruneJson.ts';
import { RequestBody } from '../../src/formats/requestBody.ts';
import type { ResponseFacts, ResponseFormat } from '../../src/formats/responseFormat.ts';
import { StreamTap } from '../../src/formats/streamTap.ts';
import { HeldMemory, MemoryBudget } from '../../src/shared/memoryBudget.ts';
import { cutsOf, piecesOf, type Random, randomOf } from './random.ts';
import { expectedRequest, isJsonOf } from './referenceRequest.ts';
import {
  factsOfDocument,
  factsOfStream,
  parsedOr,
  referenceEvents,
  seen,
  visibleEvents,
} from './referenceResponse.ts';
import { type FuzzRequest, fuzzRequest } from './requests.ts';
import { type FuzzResponse, fuzzResponse } from './responses.ts';

/** A case in which a scanner and the reference disagree, with what repeats it. */
export interface Difference {
  readonly what: string;
  readonly seed: number;
  readonly input: string;
  readonly more: unknown;
}

/** Compares what the scanners read of one generated request and of one answer with what JSON.parse reads. */
export async function compareScanners(seed: number): Promise<Difference[]> {
  const random = randomOf(seed);
  const differences: Difference[] = [];
  const request = fuzzRequest(random);
  const complain = (input: Buffer) => (what: string, more: unknown) =>
    void differences.push({ what, seed, input: input.toString('latin1').slice(0, 2_000), more });
  compareRequest(random, request, complain(request.bytes));
  const response = fuzzResponse(random, request.operation, random.chance(0.6));
  const format = request.operation.responseFormat;
  comparePruning(format, response, complain(response.bytes));
  if (response.isStream) compareStream(random, format, response, complain(response.bytes));
  else await compareDocument(random, format, response, complain(response.bytes));
  return differences;
}

type Complain = (what: string, more: unknown) => void;

function compareRequest(random: Random, request: FuzzRequest, complain: Complain): void {
  const { bytes, operation } = request;
  const expected = expectedRequest(request);
  const body = () => new RequestBody(piecesOf(bytes, cutsOf(random, bytes.length)));
  const read = caught(() => readGenerationRequest(operation, body()));
  const whole = caught(() => readGenerationRequest(operation, new RequestBody([bytes])));
  if (!isDeepStrictEqual(factsOfRequest(read), factsOfRequest(whole)))
    complain('a request in pieces', [read, whole]);
  if (read instanceof AppError) {
    const fates: Readonly<Record<string, string>> = {
      malformed_json: 'malformed',
      duplicate_field: 'ambiguous',
      ambiguous_field: 'ambiguous',
      invalid_model: 'invalid model',
    };
    const fate = fates[read.code];
    // A body may be malformed, and ambiguous before that.
    const isExpected =
      fate === expected.fate ||
      (expected.fate === 'unclear' && fate !== 'malformed') ||
      (expected.fate === 'malformed' && fate === 'ambiguous');
    if (!isExpected) complain('a refusal', { code: read.code, expected: expected.fate });
    return;
  }
  // An empty name is a name, which no model has.
  const isRead = ['forwarded', 'unknown model', 'unclear'].includes(expected.fate) || read.model === '';
  if (!isRead) {
    complain('no refusal', expected);
    return;
  }
  const { stream, maxTokens, hidesUsage, upstream } = expected;
  const facts = { stream, maxTokens, hidesUsage };
  const readFacts = {
    stream: read.stream,
    maxTokens: read.output?.maxTokens,
    hidesUsage: operation.needsIncludeUsage && read.stream && !read.wantsUsage,
  };
  if (!isDeepStrictEqual(readFacts, facts))
    complain('the fields of a request', { read: readFacts, expected: facts });
  if (!upstream) return;
  const sent = upstreamBody(read, String(upstream.model), true).toBuffer();
  if (!isJsonOf(sent, upstream)) complain('the body for the vendor', { sent: sent.toString(), upstream });
  compareEdits(random, bytes, complain);
}

/** What is cut out, or set, by spans, beside what it does to the parsed value. */
function compareEdits(random: Random, bytes: Buffer, complain: Complain): void {
  const parsed = parsedOr(bytes.toString('utf8')) as Record<string, unknown>;
  // The names that are cut are those of fields, in ASCII.
  const names = new Set(Object.keys(parsed).filter((name) => /^[ -~]*$/.test(name) && random.chance(0.4)));
  const body = new RequestBody(piecesOf(bytes, cutsOf(random, bytes.length)));
  const cut = body.withEdits(memberCuts(bytes, names).map((span) => ({ span, text: '' }))).toBuffer();
  const kept = Object.fromEntries(Object.entries(parsed).filter(([name]) => !names.has(name)));
  if (!isJsonOf(cut, kept)) complain('members that are cut', { names: [...names], cut: cut.toString() });
  const renamed = withModel(body, 'other/"é').toBuffer();
  if (!isJsonOf(renamed, { ...parsed, model: 'other/"é' })) complain('another model', renamed.toString());
}

/** All but the bytes themselves. */
function factsOfRequest(read: ReturnType<typeof readGenerationRequest> | AppError): unknown {
  if (read instanceof AppError) return { code: read.code, message: read.message };
  const { body, ...facts } = read;
  return { ...facts, length: body.length };
}

function caught<Result>(read: () => Result): Result | AppError {
  try {
    return read();
  } catch (error) {
    if (error instanceof AppError) return error;
    throw error;
  }
}

/** Short documents are parsed, longer ones pruned: both read the same, of damaged bytes too. */
function comparePruning(format: ResponseFormat, { bytes, isStream }: FuzzResponse, complain: Complain): void {
  const documents = isStream ? referenceEvents(bytes).flatMap(({ data }) => data ?? []) : [bytes];
  for (const document of documents.map((one) => Buffer.from(one))) {
    for (const shape of [format.eventShape, format.bodyShape, format.plainBodyShape]) {
      const pruner = new JsonPruner(shape);
      pruner.push(document);
      const read = pruneJson(document, shape);
      if (!isDeepStrictEqual(read, pruner.result))
        complain('what is pruned of a document', [document.toString('latin1'), read, pruner.result]);
    }
  }
}

function compareStream(
  random: Random,
  format: ResponseFormat,
  { bytes, isDamaged }: FuzzResponse,
  complain: Complain,
): void {
  const whole = tapped(format, [bytes], false);
  const pieces = piecesOf(bytes, cutsOf(random, bytes.length));
  const split = tapped(format, pieces, false);
  if (!split.passed.equals(bytes)) complain('bytes of a stream', split.passed.toString('latin1'));
  if (!isDeepStrictEqual(split.facts, whole.facts))
    complain('a stream in pieces', [split.facts, whole.facts]);
  const hiding = tapped(format, pieces, true);
  // A blank line before an event that is hidden goes out, or does not.
  const linesOf = (passed: Buffer) => referenceEvents(passed).map(({ lines }) => lines);
  const hidingWhole = tapped(format, [bytes], true);
  if (!isDeepStrictEqual(linesOf(hiding.passed), linesOf(hidingWhole.passed)))
    complain('hidden usage in pieces', hiding.passed.toString('latin1'));
  if (!isDeepStrictEqual(hiding.facts, whole.facts)) complain('a stream whose usage is hidden', hiding.facts);
  compareEvents(bytes, pieces, complain);
  if (isDamaged) return;
  const expected = factsOfStream(format, bytes);
  if (!isSame(whole.facts, expected)) complain('what a stream reports', [whole.facts, expected]);
  const shown = referenceEvents(hiding.passed).map(seen);
  const visible = visibleEvents(format, bytes);
  if (!isDeepStrictEqual(shown, visible)) complain('what is visible of a stream', [shown, visible]);
}

/** Whether two readings say the same: to leave out a member, or to set it to undefined, is the same. */
function isSame(one: ResponseFacts, other: ResponseFacts): boolean {
  return isDeepStrictEqual(defined(one), defined(other));
}

function defined(value: unknown): unknown {
  if (value instanceof Set) return [...value];
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const members = Object.entries(value).filter(([, member]) => member !== undefined);
  return Object.fromEntries(members.map(([name, member]) => [name, defined(member)]));
}

function tapped(format: ResponseFormat, pieces: readonly Buffer[], hideUsage: boolean) {
  const tap = new StreamTap({ format, hideUsage });
  const passed = Buffer.concat([...pieces.map((piece) => Buffer.from(tap.push(piece))), tap.end()]);
  return { facts: tap.facts, passed };
}

/** The data of each event, as damaged as it is. */
function compareEvents(bytes: Buffer, pieces: readonly Buffer[], complain: Complain): void {
  const splitter = new SseSplitter();
  const events = [...pieces.flatMap((piece) => splitter.push(piece)), splitter.rest()];
  const data = events.flatMap((event) => eventData(event)?.toString('utf8') ?? []);
  const expected = referenceEvents(bytes).flatMap((event) => event.data ?? []);
  if (!isDeepStrictEqual(data, expected)) complain('the data of events', [data, expected]);
}

async function compareDocument(
  random: Random,
  format: ResponseFormat,
  { bytes, isDamaged }: FuzzResponse,
  complain: Complain,
): Promise<void> {
  const held = factsOf(format, bytes);
  const pieces = piecesOf(bytes, cutsOf(random, bytes.length));
  const passing = await passed(format, pieces);
  const passingWhole = await passed(format, [bytes]);
  if (!isDeepStrictEqual(passing, passingWhole))
    complain('a passing document in pieces', [passing, passingWhole]);
  if (isDamaged || parsedOr(bytes.toString('utf8')) === undefined) return;
  const expected = factsOfDocument(format, bytes);
  if (!isSame(held, expected)) complain('what a held document reports', [held, expected]);
  if (bytes.toString('latin1').trimStart().startsWith('{') && !isSame(passing, expected)) {
    complain('what a passing document reports', [passing, expected]);
  }
}

async function passed(format: ResponseFormat, pieces: readonly Buffer[]): Promise<ResponseFacts> {
  const reader = new DocumentReader(format, undefined, new HeldMemory(new MemoryBudget(1024 * 1024)));
  for (const piece of pieces) await reader.push(piece);
  return await reader.end();
}
