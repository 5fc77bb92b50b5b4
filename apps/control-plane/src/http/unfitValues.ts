import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import { invalidPageToken } from './paging.ts';

/** What JSON and URLs can hold, and no column: a NUL, or half of a surrogate pair. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: this is the character to find.
const UNFIT = /[\u0000\p{Surrogate}]/u;
/** What Postgres says of a position in a list that is none (https://www.postgresql.org/docs/current/errcodes-appendix.html). */
const UNFIT_POSITION = new Set(['22021', '22P02', '22P05', '22007', '22008', '22003']);

/**
 * Refuses with 400 what no column can hold, wherever it stands in a body or a query, so that no schema has to think of
 * it; and page tokens that somebody made up with anything in them.
 */
export function refuseUnfitValues(api: FastifyInstance): void {
  api.addHook('preValidation', async (request) => {
    for (const given of [request.body, request.query]) {
      const found = unfitText(given, '');
      if (found === undefined) continue;
      throw new AppError(
        'invalid_request',
        'invalid_request',
        `${found}: holds a NUL character, or half of a surrogate pair: leave that out.`,
        { param: found },
      );
    }
  });
  // What is thrown here goes to the error handler of the whole application.
  api.setErrorHandler((error, request) => {
    const code = error instanceof Error && 'code' in error ? String(error.code) : '';
    const hasToken = Boolean((request.query as { page_token?: string }).page_token);
    throw hasToken && UNFIT_POSITION.has(code) ? invalidPageToken() : error;
  });
}

/** Where in a parsed value an unfit text is, by the names that lead there. */
function unfitText(value: unknown, path: string): string | undefined {
  if (typeof value === 'string') return UNFIT.test(value) ? path : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    if (UNFIT.test(name)) return path || 'body';
    const found = unfitText(inner, path ? `${path}.${name}` : name);
    if (found !== undefined) return found;
  }
  return undefined;
}
