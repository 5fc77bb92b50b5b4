import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, Strict } from '../../shared/schemas.ts';
import { listModels, type ModelDeps } from './models.service.ts';

const Price = Type.Object(
  {
    currency_code: Type.Literal('USD'),
    units: Type.Integer(),
    nanos: Type.Integer({ minimum: 0, maximum: 999_999_999 }),
  },
  { title: 'Price', description: 'Of one million tokens.' },
);
const Score = Type.Optional(Type.Number());

const Model = Type.Object(
  {
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
  },
  { title: 'Model' },
);

export function modelRoutes(app: App, deps: ModelDeps): void {
  app.get(
    '/models',
    {
      config: { scope: 'models:read' },
      schema: {
        operationId: 'listModels',
        summary: 'The routable model catalog',
        querystring: Strict(PageQuery),
        response: { 200: Page(Model) },
      },
    },
    async (request) => await listModels(deps, request.caller, request.query),
  );
}
