import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import { hasInvalidCharacter } from '../shared/invalidText.ts';

/** Rejects, with a 400, text in a body or query that Postgres cannot store. */
export function rejectInvalidText(api: FastifyInstance): void {
  api.addHook('preValidation', async (request) => {
    for (const value of [request.body, request.query]) {
      const found = findInvalidText(value, '');
      if (found === undefined) continue;
      throw new AppError(
        'invalid_request',
        'invalid_request',
        `${found}: contains a NUL character or an unpaired surrogate. Remove it.`,
        { param: found },
      );
    }
  });
}

/** The path to the first invalid text in a parsed value. */
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
