import { AppError, raise } from '@weighbridge/errors';
import type { GeminiTarget } from '../formats/geminiRequest.ts';
import type { Operation } from '../formats/operation.ts';
import type { Exchange } from './exchange.ts';

/** What the path and the query of a request to Gemini's API say. Throws a 400 for a form of responses that is not served. */
export function geminiTarget(
  operation: Operation,
  stream: boolean,
  { name, query }: Pick<Exchange, 'name' | 'query'>,
): GeminiTarget {
  const alt = formatOf(query);
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
