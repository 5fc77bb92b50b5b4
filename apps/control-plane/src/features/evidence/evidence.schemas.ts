import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';

const Mean = (description: string) => Nullable(Type.Number({ description }));

export const Evidence = Type.Object(
  {
    workload_type: Type.String({
      description: 'The X-Svc-Workload-Type of the requests, cut at 256 characters; empty if they sent none.',
    }),
    workload_type_key: Type.String({
      description: 'Identifies the workload type: the first 8 bytes of its SHA-256, in hex.',
    }),
    model: Type.String(),
    requests: Type.Number({ description: 'Attempts; older ones count less.' }),
    success_rate: Mean('From 0 to 1; null if there is no evidence.'),
    mean_latency_ms: Mean('Of successful attempts, until the end of the response.'),
    mean_time_to_first_token_ms: Mean('Of successful attempts, until the first byte of the response.'),
    mean_cost_micro_usd: Mean('Per successful attempt, including the cost of failed attempts.'),
    mean_score: Mean('Of the scores that callers gave, from 0 to 1.'),
    scores: Type.Number({ description: 'The number of scores; older ones count less.' }),
    updated_at: Nullable(DateTime),
    probability: Nullable(
      Type.Number({
        description:
          'How often `adaptive` tries this model first among the targets of the profile; null without a profile.',
      }),
    ),
    why: Type.String({ description: 'The evidence in words.' }),
  },
  { title: 'Evidence' },
);
export type Evidence = Static<typeof Evidence>;

export const EvidenceQuery = Strict({
  ...PageQuery,
  profile_id: Type.Optional(
    Type.String({ description: 'Only the targets of this profile, including those without evidence.' }),
  ),
  workload_type: Type.Optional(
    Type.String({
      maxLength: 8_192,
      description: 'The whole X-Svc-Workload-Type; empty for requests that sent none.',
    }),
  ),
  model: Type.Optional(Type.String({ minLength: 1, maxLength: 512 })),
});
export type EvidenceQuery = Static<typeof EvidenceQuery>;
