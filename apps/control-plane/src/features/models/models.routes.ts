import { Type } from 'typebox';
import type { App } from '../../http/fastify.ts';
import { DateTime, Nullable, Strict } from '../../http/schemas.ts';
import { listModels, type ModelDeps } from './models.service.ts';

const Price = Type.Object({
  currency_code: Type.Literal('USD'),
  units: Type.Integer(),
  nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
});
const Score = Type.Optional(Type.Number());

const Model = Type.Object({
  model: Type.String(),
  provider: Type.String(),
  input_price: Price,
  output_price: Price,
  cache_read_price: Price,
  cache_write_price: Price,
  context_window: Type.Integer(),
  max_output_tokens: Nullable(Type.Integer()),
  capabilities: Type.Array(Type.String()),
  deprecated_at: Nullable(DateTime),
  benchmark_scores: Type.Object({ mmlu: Score, human_eval: Score, mt_bench: Score, avg_score: Score }),
});

export function modelRoutes(app: App, deps: ModelDeps): void {
  app.get(
    '/models',
    {
      config: { scope: 'models:read' },
      schema: {
        operationId: 'listModels',
        summary: 'The routable model catalog',
        querystring: Strict({
          page_token: Type.Optional(Type.String()),
          page_size: Type.Optional(Type.String()),
        }),
        response: { 200: Type.Object({ data: Type.Array(Model), next_page_token: Type.String() }) },
      },
    },
    async (request) => await listModels(deps, request.caller, request.query),
  );
}
