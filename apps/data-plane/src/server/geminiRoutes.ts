import { AppError, raise } from '@weighbridge/errors';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { GeminiTarget } from '../formats/geminiRequest.ts';
import { GEMINI_OPERATIONS, GENERATE_CONTENT, type Operation } from '../formats/operation.ts';
import { splitUrl } from './requestUrl.ts';

const STREAM_METHOD = 'streamGenerateContent';
const METHODS = [...GEMINI_OPERATIONS.map(({ method }) => method), STREAM_METHOD];
const MODEL_PATH = new RegExp(`^(/v1(?:beta)?/models/)([^?]+):(${METHODS.join('|')})(?=/?(?:\\?|$))`);

/** True for a path of Gemini's API, which no other dialect has. */
export function isGeminiPath(url: string): boolean {
  return GEMINI_PATH.test(url) || (url.startsWith('/v1/models/') && MODEL_PATH.test(url));
}

const GEMINI_PATH = /^\/v1beta(?=[/?]|$)/;

/** Makes the name of a model one segment of the path, which clients do not, and the method the next one. */
export function withOneModel(url: string): string {
  if (!url.startsWith('/v1beta/models/') && !url.startsWith('/v1/models/')) return url;
  return url.replace(
    MODEL_PATH,
    (_all, prefix: string, name: string, method: string) =>
      `${prefix}${name.replaceAll('/', '%2F')}/:${method}`,
  );
}

/** Runs a request, once its path is understood. */
type RunGemini = (request: FastifyRequest, reply: FastifyReply, target: GeminiTarget) => Promise<void>;
type WithModel = { Params: { model: string } };

/** Gemini's operations, below `/v1beta` and, as its newer clients ask for them, `/v1`. */
export function addGeminiOperations(api: FastifyInstance, run: RunGemini): void {
  const add = (operation: Operation, method: string, stream: boolean) => {
    // Two colons stand for one, which is no parameter.
    api.post<WithModel>(`/models/:model/::${method}`, async (request, reply) => {
      await run(request, reply, geminiTarget(operation, stream, request.params.model, request.url));
    });
  };
  for (const operation of GEMINI_OPERATIONS) add(operation, operation.method ?? '', false);
  add(GENERATE_CONTENT, STREAM_METHOD, true);
}

function geminiTarget(operation: Operation, stream: boolean, name: string, url: string): GeminiTarget {
  const alt = formatOf(splitUrl(url).query);
  return { operation, model: name, stream, isArray: stream && alt !== 'sse' };
}

/** Google's parameters that change the form of an answer: then its usage could not be read. */
const RESHAPING = ['fields', '$fields', 'callback', '$callback'];

/** The format that the query asks for. Throws a 400 for one that is not served. */
function formatOf(query: string): string {
  if (query === '') return 'json';
  const parameters = new URLSearchParams(query);
  const reshaping = RESHAPING.find((name) => parameters.has(name));
  if (reshaping !== undefined) throw notServed(reshaping, 'Remove it.');
  const alt = (parameters.get('alt') ?? parameters.get('$alt') ?? 'json').split(';')[0] ?? '';
  return alt === 'json' || alt === 'sse' ? alt : raise(notServed('alt', 'It may be "json" or "sse".'));
}

function notServed(param: string, hint: string): AppError {
  const message = `The parameter "${param}" of the query is not served. ${hint}`;
  return new AppError('invalid_request', 'unsupported_parameter', message, { param });
}
