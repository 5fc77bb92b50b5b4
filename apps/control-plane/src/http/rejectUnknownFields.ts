import { AppError } from '@weighbridge/errors';
import type { FastifyInstance } from 'fastify';

/** Refuses fields in the body of an operation that takes none, as the schemas of the others refuse unknown fields. */
export function rejectUnknownFields(api: FastifyInstance): void {
  api.addHook('preValidation', async ({ body, routeOptions }) => {
    if (body === undefined || routeOptions.schema?.body) return;
    const isObject = typeof body === 'object' && body !== null && !Array.isArray(body);
    const [field] = isObject ? Object.keys(body) : [];
    if (isObject && field === undefined) return;
    const param = field === undefined ? {} : { param: field };
    const message =
      field === undefined
        ? 'body: this request takes none. Send it without a body.'
        : `${field}: is not a field of this request.`;
    throw new AppError('invalid_request', 'invalid_request', message, param);
  });
}
