import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, MicroUsd, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { LedgerFilterQuery, QueryText } from '../spend/ledgerQuery.ts';
import { Correction } from './corrections.routes.ts';
import { listRequests, type RequestDeps, readRequest } from './requests.service.ts';
import { OUTCOMES } from './requests.ts';

const Text = Type.Optional(Type.String());
const Count = Type.Integer();

const Attempt = Type.Object(
  {
    event_id: Type.String(),
    model_requested: Type.String(),
    model: Type.String({ description: 'What served.' }),
    provider: Type.String(),
    connector_id: Type.String(),
    outcome: Type.String({ description: `One of ${OUTCOMES.join(', ')}.` }),
    http_status: Type.Integer({ description: "The vendor's; 0 where none came." }),
    streamed: Type.Boolean(),
    cache_hit: Type.Boolean({
      description: 'It came from the response cache: nothing was sent, and it cost nothing.',
    }),
    input_tokens: Count,
    cache_read_tokens: Count,
    cache_write_tokens: Count,
    cache_write_1h_tokens: Count,
    output_tokens: Count,
    cost_micro_usd: MicroUsd,
    cost_nano_usd: Type.String({ description: 'The same, exact, as a decimal integer.' }),
    price_version: Type.Integer(),
    estimated: Type.Boolean(),
    admitted_at: DateTime,
    settled_at: DateTime,
    first_byte_ms: Nullable(Type.Number()),
    duration_ms: Type.Number(),
    response_id: Nullable(Type.String({ description: "The vendor's id of a stored response." })),
  },
  { title: 'Attempt' },
);

const Request = Type.Object(
  {
    request_id: Type.String(),
    admitted_at: DateTime,
    key_id: Type.String(),
    principal_id: Type.String(),
    attribution: Type.Object({
      user: Text,
      team: Text,
      project: Text,
      env: Text,
      labels: Type.Optional(Type.Record(Type.String(), Type.String())),
      workload_type: Text,
      namespace: Text,
      workload: Text,
      pod: Text,
      session_id: Text,
    }),
    policies: Type.Array(Type.Object({ policy_id: Type.String(), window_start: DateTime }), {
      description: 'Whose counters it counts in, the governing policy first; its parents only to operators.',
    }),
    cost_micro_usd: Type.Integer({ description: 'Of all attempts, with their corrections.' }),
    attempts: Type.Array(Attempt, {
      description:
        'All that was sent to a vendor for it, the first attempt first; or the one hit of the cache.',
    }),
    corrections: Type.Array(Correction, {
      description: 'What was added later to what it cost, or taken from it, in the order of recording.',
    }),
    feedback: Nullable(
      Type.Object(
        {
          score: Type.Number({ description: 'From 0 to 1.' }),
          comment: Nullable(Type.String({ description: 'Shown to operators only.' })),
          given_at: DateTime,
        },
        { title: 'Feedback', description: 'What the caller said of the answer, by POST /v1/feedback.' },
      ),
    ),
  },
  { title: 'RequestRecord' },
);

const Query = Strict({
  ...PageQuery,
  ...LedgerFilterQuery,
  request_id: QueryText(),
  session_id: QueryText('The whole X-Svc-Session-Id.'),
  outcome: Type.Optional(OneOf(OUTCOMES)),
  min_cost_micro_usd: Type.Optional(Type.String({ description: 'Attempts that cost at least so much.' })),
  estimated: Type.Optional(OneOf(['true', 'false'])),
});

export function requestRoutes(app: App, deps: RequestDeps): void {
  app.get(
    '/requests',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'listRequests',
        summary: 'Single requests as the ledger has them, the newest first',
        querystring: Query,
        response: { 200: Page(Request) },
      },
    },
    async (request) => await listRequests(deps, request.caller, request.query),
  );

  app.get(
    '/requests/:request_id',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getRequest',
        summary: 'One request with all its attempts',
        params: Type.Object({ request_id: Type.String() }),
        response: { 200: Request },
      },
    },
    async (request) => await readRequest(deps, request.caller, request.params.request_id),
  );
}
