import type { Readable } from 'node:stream';
import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { acceptedType } from '../../shared/mediaType.ts';
import { FOCUS_EXAMPLE, FocusRequest } from './focus.schemas.ts';
import { focusExport } from './focus.service.ts';
import { SpendReport, SpendRequest } from './spend.schemas.ts';
import { createSpendExports, type SpendDeps, spendReport } from './spend.service.ts';

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
      const csv = await exports.open(request.caller, request.query);
      return reply
        .header('content-type', 'text/csv; charset=utf-8; header=present')
        .header('content-disposition', 'attachment; filename="spend.csv"')
        .send(csv);
    },
  );

  app.get(
    '/spend/focus',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'exportFocus',
        summary: 'Spend by day as FinOps tools read it: FOCUS 1.2 in CSV',
        description:
          'One row for each day (UTC), account at a vendor, model, key and attribution. The costs add up exactly to those of the same range of `getSpend`. Rows come in order of days, so an export that breaks off is continued from its last day.',
        querystring: FocusRequest,
        response: {
          200: {
            description: 'Rows in order of the day.',
            content: {
              'text/csv': { schema: Type.Unsafe<Readable>({ type: 'string', examples: [FOCUS_EXAMPLE] }) },
            },
          },
        },
      },
    },
    async (request, reply) => {
      acceptedType(request.headers.accept, ['text/csv']);
      const { lines, isComplete, name } = await focusExport(deps, request.caller, request.query);
      const csv = await exports.stream(lines);
      return reply
        .header('content-type', 'text/csv; charset=utf-8; header=present')
        .header('content-disposition', `attachment; filename="${name}"`)
        .header('x-svc-complete', String(isComplete))
        .send(csv);
    },
  );
}
