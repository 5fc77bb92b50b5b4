import type { Readable } from 'node:stream';
import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { acceptedType } from '../../shared/mediaType.ts';
import { FOCUS_EXAMPLE, FocusRequest, PARQUET } from './focus.schemas.ts';
import { type FocusFormat, focusExport } from './focus.service.ts';
import { SpendReport, SpendRequest } from './spend.schemas.ts';
import { createSpendExports, isSpendComplete, type SpendDeps, spendReport } from './spend.service.ts';

const CSV_WITH_HEADER = 'text/csv; charset=utf-8; header=present';

export function spendRoutes(app: App, deps: SpendDeps): void {
  const exports = createSpendExports(deps);
  app.get(
    '/spend',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getSpend',
        summary: 'Spend by dimensions and time, as JSON or CSV',
        querystring: SpendRequest,
        response: {
          200: {
            description: 'Rows in order of bucket, then of the values of the group.',
            content: {
              'application/json': { schema: SpendReport },
              'text/csv': { schema: Type.Unsafe<Readable>({ type: 'string' }) },
            },
          },
        },
      },
    },
    async (request, reply) => {
      const type = acceptedType(request.headers.accept, ['application/json', 'text/csv']);
      reply.header('vary', 'accept');
      if (type === 'application/json') return await spendReport(deps, request.caller, request.query);
      const isComplete = await isSpendComplete(deps, request.caller, request.query);
      const csv = await exports.open(request.caller, request.query);
      return reply
        .header('content-type', CSV_WITH_HEADER)
        .header('content-disposition', 'attachment; filename="spend.csv"')
        .header('x-svc-complete', String(isComplete))
        .send(csv);
    },
  );

  app.get(
    '/spend/focus',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'exportFocus',
        summary: 'Spend by day as FinOps tools read it: FOCUS 1.2 in CSV or Parquet',
        description:
          'One row for each day (UTC), account at a vendor, model, key and attribution. The costs add up exactly to those of the same range of `getSpend`. Rows come in order of days, so an export that breaks off is continued from its last day. In Parquet, costs and quantities are DECIMAL(38, 9), times are timestamps in UTC.',
        querystring: FocusRequest,
        response: {
          200: {
            description: 'Rows in order of the day.',
            content: {
              'text/csv': { schema: Type.Unsafe<Readable>({ type: 'string', examples: [FOCUS_EXAMPLE] }) },
              [PARQUET]: { schema: Type.Unsafe<Readable>({ type: 'string', format: 'binary' }) },
            },
          },
        },
      },
    },
    async (request, reply) => {
      reply.header('vary', 'accept');
      const format = focusFormat(request.query.format, request.headers.accept);
      const { content, isComplete, name } = await focusExport(deps, request.caller, request.query, format);
      const file = await exports.stream(content);
      return reply
        .header('content-type', format === 'csv' ? CSV_WITH_HEADER : PARQUET)
        .header('content-disposition', `attachment; filename="${name}"`)
        .header('x-svc-complete', String(isComplete))
        .send(file);
    },
  );
}

function focusFormat(format: FocusFormat | undefined, accept: string | undefined): FocusFormat {
  return format ?? (acceptedType(accept, ['text/csv', PARQUET]) === PARQUET ? 'parquet' : 'csv');
}
