import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';
import { type EvidenceDeps, listEvidence } from './evidence.service.ts';

const Mean = (description: string) => Nullable(Type.Number({ description }));

const Evidence = Type.Object(
  {
    workload_type: Type.String({
      description: 'What callers call it, cut at 256; empty where they say nothing.',
    }),
    workload_type_key: Type.String({
      description: 'By what workload types are told apart: the first 8 bytes of the SHA-256, in hex.',
    }),
    model: Type.String(),
    requests: Type.Number({ description: 'Attempts, the older ones counting less.' }),
    success_rate: Mean('From 0 to 1; null where nothing is known.'),
    mean_latency_ms: Mean('Of those that succeeded, until the end.'),
    mean_time_to_first_token_ms: Mean('Of those that succeeded, until the first byte.'),
    mean_cost_micro_usd: Mean('Of an answer, with what its failed attempts cost.'),
    mean_score: Mean("The callers' own, from 0 to 1."),
    scores: Type.Number({ description: 'How many scores there are, the older ones counting less.' }),
    updated_at: Nullable(DateTime),
    probability: Nullable(
      Type.Number({
        description:
          'How often `adaptive` would try it first among the targets of the profile; null without one.',
      }),
    ),
    why: Type.String({ description: 'What it goes by, in words.' }),
  },
  { title: 'Evidence' },
);

const Query = Strict({
  ...PageQuery,
  profile_id: Type.Optional(
    Type.String({ description: 'Only its targets, whether anything is known of them or not.' }),
  ),
  workload_type: Type.Optional(
    Type.String({ maxLength: 8_192, description: 'The whole X-Svc-Workload-Type; empty for what has none.' }),
  ),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
});

export function evidenceRoutes(app: App, deps: EvidenceDeps): void {
  app.get(
    '/evidence',
    {
      config: { scope: 'operator' },
      schema: {
        operationId: 'listEvidence',
        summary: 'What is known of how models do, by workload type, and what `adaptive` makes of it',
        querystring: Query,
        response: { 200: Page(Evidence) },
      },
    },
    async (request) => await listEvidence(deps, request.query),
  );
}
