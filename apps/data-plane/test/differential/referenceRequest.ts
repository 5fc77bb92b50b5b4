import { isDeepStrictEqual } from 'node:util';
import { parsedOr } from './referenceResponse.ts';
import type { FuzzRequest } from './requests.ts';

type Fields = Record<string, unknown>;

/** The models of the proxy under test, and their names at the vendor. */
const UPSTREAM_NAMES: ReadonlyMap<unknown, string> = new Map([
  ['mock/echo', 'echo'],
  ['mock/gpt/with/slashes', 'gpt/with/slashes'],
]);

/** What becomes of a request, by the documents and JSON.parse alone. */
export interface ExpectedRequest {
  /** `unclear`: bytes were changed at random, so that only the two paths are compared. */
  readonly fate: 'forwarded' | 'malformed' | 'ambiguous' | 'invalid model' | 'unknown model' | 'unclear';
  /** The parsed body for the vendor. */
  readonly upstream: Fields | undefined;
  readonly stream: boolean;
  /** The client must not see the usage that the service asks for. */
  readonly hidesUsage: boolean;
  /** The largest number of tokens by which the body limits its output. */
  readonly maxTokens: number | undefined;
}

export function expectedRequest(request: FuzzRequest): ExpectedRequest {
  const { bytes, operation, isAmbiguous, isDamaged } = request;
  const parsed = parsedOr(bytes.toString('utf8'));
  if (!isRecord(parsed)) return { ...NOTHING, fate: 'malformed' };
  // Of the operations that have such a field.
  const given = (name: string) => (operation.fields.has(name) ? parsed[name] : undefined);
  const options = given('stream_options');
  const stream = given('stream') === true;
  const asksItself = isRecord(options) && options.include_usage === true;
  const hidesUsage = operation.needsIncludeUsage && stream && !asksItself;
  const limits = (operation.outputLimits ?? []).map((name) => parsed[name]).filter(isCount);
  const name = UPSTREAM_NAMES.get(parsed.model);
  const shared = { stream, hidesUsage, maxTokens: limits.length > 0 ? Math.max(...limits) : undefined };
  const upstream =
    name === undefined ? undefined : rewritten(parsed, name, hidesUsage && isRecordOrAbsent(options));
  if (isDamaged) return { ...shared, upstream, fate: 'unclear' };
  if (isAmbiguous) return { ...shared, upstream: undefined, fate: 'ambiguous' };
  if (upstream) return { ...shared, upstream, fate: 'forwarded' };
  const isName = typeof parsed.model === 'string' && parsed.model !== '';
  return { ...shared, upstream, fate: isName ? 'unknown model' : 'invalid model' };
}

const NOTHING = { upstream: undefined, stream: false, hidesUsage: false, maxTokens: undefined };

function rewritten(parsed: Fields, name: string, asksForUsage: boolean): Fields {
  const body = { ...parsed, model: name };
  if (!asksForUsage) return body;
  const options = isRecord(parsed.stream_options) ? parsed.stream_options : {};
  return { ...body, stream_options: { ...options, include_usage: true } };
}

/** Whether bytes are the JSON of this value, in any order of members. */
export function isJsonOf(bytes: Buffer, value: unknown): boolean {
  return isDeepStrictEqual(parsedOr(bytes.toString('utf8')), value);
}

function isRecord(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const isRecordOrAbsent = (value: unknown) => value === undefined || isRecord(value);
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) > 0;
