import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { IdempotencyHeaders } from '../idempotency/idempotencyKeys.ts';
import { Correction, NewCorrection } from './corrections.schemas.ts';
import { correctRequest } from './corrections.service.ts';
import { existingRequest, type RequestDeps } from './requests.service.ts';

const RequestParams = Type.Object({ request_id: Type.String() });

export function correctionRoutes(app: App, deps: RequestDeps): void {
  app.post(
    '/requests/:request_id/corrections',
    {
      config: {
        scope: 'operator',
        assertExists: async (request) =>
          await existingRequest(deps, (request.params as Static<typeof RequestParams>).request_id),
      },
      schema: {
        operationId: 'createCorrection',
        summary: 'Correct the cost of a request',
        description:
          'Adds an entry to the ledger, whose rows are never edited. The amount counts in the windows in which the request was admitted. Accepts an `Idempotency-Key`.',
        params: RequestParams,
        headers: IdempotencyHeaders,
        body: NewCorrection,
        response: { 201: Correction },
      },
    },
    async (request, reply) => {
      const { result, replayed } = await correctRequest(
        deps,
        request.caller,
        request.params.request_id,
        request.body,
        request.headers['idempotency-key'],
      );
      if (replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(201).send(result);
    },
  );
}
