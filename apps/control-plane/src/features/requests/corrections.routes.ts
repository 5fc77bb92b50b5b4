import { MAX_LIMIT_MICRO_USD } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { DateTime, MicroUsd, Strict } from '../../shared/schemas.ts';
import { correctRequest } from './corrections.service.ts';
import { existingRequest, type RequestDeps } from './requests.service.ts';

const NewCorrection = Strict(
  {
    amount_micro_usd: Type.Integer({
      description: 'What is added to the spend; below zero it is given back.',
      minimum: -MAX_LIMIT_MICRO_USD,
      maximum: MAX_LIMIT_MICRO_USD,
      not: { const: 0 },
      examples: [-250_000],
    }),
    reason: Type.String({
      minLength: 1,
      maxLength: 1_000,
      examples: ["the vendor's invoice of May charges no tokens for it"],
    }),
    event_id: Type.Optional(
      Type.String({
        description: "The attempt that is corrected; the request's first where it is left out.",
        examples: ['019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b'],
      }),
    ),
  },
  { title: 'NewCorrection' },
);
/** Also as it stands in its request. */
export const Correction = Type.Object(
  {
    event_id: Type.String({
      description: "The correction's own.",
      examples: ['019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1c'],
    }),
    corrects: Type.String({
      description: 'The event_id of the attempt that it is about.',
      examples: ['019aa1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b'],
    }),
    amount_micro_usd: MicroUsd,
    amount_nano_usd: Type.String({
      description: 'The same, exact, as a decimal integer.',
      examples: ['12345000000'],
    }),
    reason: Type.String(),
    recorded_at: DateTime,
  },
  { title: 'Correction' },
);

const RequestParams = Type.Object({ request_id: Type.String() });

export function correctionRoutes(app: App, deps: RequestDeps): void {
  app.post(
    '/requests/:request_id/corrections',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'createCorrection',
        summary: 'Correct what a request cost',
        description:
          'Adds a signed entry to the ledger; nothing in it is ever edited. It counts in the windows that the request was admitted in. Takes an `Idempotency-Key`.',
        params: RequestParams,
        headers: Type.Object({ 'idempotency-key': Type.Optional(Type.String()) }),
        body: NewCorrection,
        response: { 201: Correction },
      },
      preParsing: async (request) => {
        await existingRequest(deps.db, (request.params as Static<typeof RequestParams>).request_id);
      },
    },
    async (request, reply) => {
      const { answer, replayed } = await correctRequest(
        deps,
        request.caller,
        request.params.request_id,
        request.body,
        request.headers['idempotency-key'],
      );
      if (replayed) reply.header('idempotency-replayed', 'true');
      return reply.code(201).send(answer);
    },
  );
}
