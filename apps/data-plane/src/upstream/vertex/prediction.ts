import { OPEN_OBJECT } from '@weighbridge/dialects';
import { AppError } from '@weighbridge/errors';
import { findFields } from '../../formats/jsonFields.ts';
import { memberCuts } from '../../formats/memberCuts.ts';
import { RequestBody } from '../../formats/requestBody.ts';
import { GENERATE_CONTENT_FIELDS } from '../../formats/requestFields/gemini.ts';
import { betasAt, messagesBody } from '../messagesBody.ts';
import { modelSegment } from '../modelSegment.ts';
import type { UpstreamRequest } from '../upstreamRequest.ts';
import { VERTEX_BETAS } from './betas.ts';
import type { VertexApi } from './vertexError.ts';

/** A request as Vertex AI takes it. */
export interface Prediction {
  readonly api: VertexApi;
  readonly identified: UpstreamRequest;
}

const FIRST_VERSION = 'vertex-2023-10-16';
/** The version that `vertex-2023-10-16` stands for. Later ones have their own names there, too. */
const SAME_VERSION = '2023-06-01';
/** In the path, the header, or another member there. */
const ELSEWHERE: ReadonlySet<string> = new Set(['model', 'anthropic_version', 'anthropic_beta']);
/** A count names its model in the body. */
const ELSEWHERE_OF_COUNTS: ReadonlySet<string> = new Set(['anthropic_version', 'anthropic_beta']);
const IN_PATH: ReadonlySet<string> = new Set(['model']);
/** Written here. */
const REPLACED = new Set(['anthropic-beta', 'anthropic-version', 'authorization', 'x-goog-user-project']);

/** Which of Vertex's APIs a request goes to is said by its path; nearly all of its body passes byte for byte. */
export function predictionOf(
  request: UpstreamRequest,
  { project, location }: { readonly project: string; readonly location: string },
): Prediction {
  const { path, isNative = false, headers, body } = request;
  const home = `/projects/${encodeURIComponent(project)}/locations/${encodeURIComponent(location)}`;
  const kept: string[] = [];
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? '';
    if (!REPLACED.has(name)) kept.push(name, headers[at + 1] ?? '');
  }
  const sent = (api: VertexApi, to: string, changed: RequestBody): Prediction => ({
    api,
    identified: { method: request.method, path: home + to, headers: kept, body: changed },
  });
  if (body === undefined) throw notServed(path);
  if (isNative) return sent('gemini', ...geminiCall(path, body));
  const [route] = path.split('?');
  if (route === '/chat/completions') return sent('openai', `/endpoints/openapi${route}`, body);
  if (route === '/messages/count_tokens') {
    const { body: counted } = messagesBody(body, ELSEWHERE_OF_COUNTS, versionOf(headers));
    return sent('anthropic', '/publishers/anthropic/models/count-tokens:rawPredict', counted);
  }
  if (route !== '/messages') throw notServed(path);
  const betas = betasAt(VERTEX_BETAS, valuesOf(headers, 'anthropic-beta'));
  if (betas.length > 0) kept.push('anthropic-beta', betas.join(','));
  const { model, isStreamed, body: asked } = messagesBody(body, ELSEWHERE, versionOf(headers));
  const method = isStreamed ? 'streamRawPredict' : 'rawPredict';
  return sent('anthropic', `/publishers/anthropic/models/${modelSegment(model)}:${method}`, asked);
}

/** The member that says the version which the header asks for. */
function versionOf(headers: readonly string[]): string {
  const [asked = SAME_VERSION] = valuesOf(headers, 'anthropic-version');
  return `"anthropic_version":${JSON.stringify(asked === SAME_VERSION ? FIRST_VERSION : asked)},`;
}

function valuesOf(headers: readonly string[], name: string): string[] {
  return headers.filter((_value, at) => at % 2 === 1 && headers[at - 1] === name);
}

const GEMINI_PATH = /^\/models\/([^/:]+):(generateContent|streamGenerateContent\?alt=sse|countTokens)$/;

function geminiCall(path: string, body: RequestBody): [string, RequestBody] {
  const [, name, method] = GEMINI_PATH.exec(path) ?? [];
  if (name === undefined) throw notServed(path);
  const to = `/publishers/google/models/${modelSegment(decodeURIComponent(name))}:${method}`;
  return [to, method === 'countTokens' ? countBody(body) : withoutModel(body)];
}

/** Google's other API repeats the model of the path. */
function withoutModel(body: RequestBody): RequestBody {
  const cuts = memberCuts(body.toBuffer(), IN_PATH);
  return body.withEdits(cuts.map((span) => ({ span, text: '' })));
}

/** Google's other API counts a whole request as a member of the body, here it is the body. */
function countBody(body: RequestBody): RequestBody {
  const bytes = body.toBuffer();
  const asked = [...findFields(bytes, WHOLE_REQUEST).values()].find(
    ({ start }) => bytes[start] === OPEN_OBJECT,
  );
  if (!asked) return withoutMembers(bytes, OUTSIDE);
  const inner = bytes.subarray(asked.start, asked.end);
  const own = new Set(findFields(inner, COUNTED_FIELDS).keys());
  const request = withoutMembers(inner, IN_PATH).toBuffer();
  // What both say, the request says.
  const others = withoutMembers(bytes, new Set([...OUTSIDE, ...own])).toBuffer();
  return new RequestBody([joinedObjects(others, request)]);
}

const WHOLE_REQUEST = new Set(['generateContentRequest', 'generate_content_request']);
const OUTSIDE = new Set([...IN_PATH, ...WHOLE_REQUEST]);
const COUNTED_FIELDS = new Set(Object.keys(GENERATE_CONTENT_FIELDS));

function withoutMembers(bytes: Buffer, names: ReadonlySet<string>): RequestBody {
  const cuts = memberCuts(bytes, names);
  return new RequestBody([bytes]).withEdits(cuts.map((span) => ({ span, text: '' })));
}

/** One object with the members of both. */
function joinedObjects(one: Buffer, other: Buffer): Buffer {
  const [first, second] = [one, other].map((bytes) => {
    return bytes.subarray(bytes.indexOf('{') + 1, bytes.lastIndexOf('}'));
  }) as [Buffer, Buffer];
  const comma = isBlank(first) || isBlank(second) ? '' : ',';
  return Buffer.concat([OPEN, first, Buffer.from(comma), second, CLOSE]);
}

const OPEN = Buffer.from('{');
const CLOSE = Buffer.from('}');

function isBlank(bytes: Buffer): boolean {
  return !bytes.some((byte) => byte > 0x20);
}

function notServed(path: string): AppError {
  const message = `Vertex AI has no ${path.split('?')[0]} for this model: use /v1/chat/completions, /v1/messages or generateContent.`;
  return new AppError('invalid_request', 'route_not_supported', message);
}
