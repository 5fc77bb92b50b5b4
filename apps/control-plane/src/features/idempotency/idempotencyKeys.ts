import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';
import { Type } from 'typebox';

const HEADER = 'idempotency-key';
const FORMAT = /^[\x21-\x7e]{1,255}$/;

/** The headers of an operation that accepts an `Idempotency-Key`. */
export const IdempotencyHeaders = Type.Object({ [HEADER]: Type.Optional(Type.String()) });

/** Refuses a malformed `Idempotency-Key` before the rules of an operation that accepts one are checked. */
export function checkIdempotencyKeys(api: FastifyInstance): void {
  api.addHook('preValidation', async ({ headers, routeOptions }) => {
    const key = headers[HEADER];
    if (key === undefined || routeOptions.schema?.headers !== IdempotencyHeaders) return;
    if (typeof key === 'string' && FORMAT.test(key)) return;
    const message = 'Idempotency-Key: must be 1 to 255 visible ASCII characters.';
    throw new AppError('invalid_request', 'invalid_request', message, { param: HEADER });
  });
}
