import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import { hasInvalidCharacter } from '../shared/invalidText.ts';

/** Of a body. No operation needs more, and what looks at a body level by level must not run out of stack. */
const MAX_LEVELS = 100;

/** Rejects, with a 400, text in a body or query that Postgres cannot store, and bodies of too many levels. */
export function rejectInvalidText(api: FastifyInstance): void {
  api.addHook('preValidation', async (request) => {
    for (const value of [request.body, request.query]) {
      const found = findInvalidText(value, '', MAX_LEVELS);
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
function findInvalidText(value: unknown, path: string, levels: number): string | undefined {
  if (typeof value === 'string') return hasInvalidCharacter(value) ? path : undefined;
  if (typeof value !== 'object' || value === null) return undefined;
  if (levels === 0) {
    const message = `The body has more than ${MAX_LEVELS} levels of arrays and objects, which no operation takes.`;
    throw new AppError('invalid_request', 'invalid_request', message);
  }
  for (const [name, inner] of Object.entries(value)) {
    if (hasInvalidCharacter(name)) return path || 'body';
    const found = findInvalidText(inner, path ? `${path}.${name}` : name, levels - 1);
    if (found !== undefined) return found;
  }
  return undefined;
}
