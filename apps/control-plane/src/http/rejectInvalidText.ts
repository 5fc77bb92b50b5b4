import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import { hasInvalidCharacter } from '../shared/invalidText.ts';

/**
 * Refuses with 400 what no column can hold, wherever it stands in a body or a query, so that no schema has to think of
 * it.
 */
export function rejectInvalidText(api: FastifyInstance): void {
  api.addHook('preValidation', async (request) => {
    for (const given of [request.body, request.query]) {
      const found = findInvalidText(given, '');
      if (found === undefined) continue;
      throw new AppError(
        'invalid_request',
        'invalid_request',
        `${found}: holds a NUL character, or half of a surrogate pair: leave that out.`,
        { param: found },
      );
    }
  });
}

/** Where in a parsed value an unfit text is, by the names that lead there. */
function findInvalidText(value: unknown, path: string): string | undefined {
  if (typeof value === 'string') return hasInvalidCharacter(value) ? path : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  for (const [name, inner] of Object.entries(value)) {
    if (hasInvalidCharacter(name)) return path || 'body';
    const found = findInvalidText(inner, path ? `${path}.${name}` : name);
    if (found !== undefined) return found;
  }
  return undefined;
}
