import type { Readable } from 'node:stream';
import { SPEND_DIMENSIONS } from '@weighbridge/ledger';
import { Type } from 'typebox';
import type { App } from '../../shared/fastify.ts';
import { acceptedType } from '../../shared/mediaType.ts';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, MicroUsd, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { LedgerFilterQuery, QueryText } from './ledgerQuery.ts';
import { createSpendExports, type SpendDeps, spendReport } from './spend.service.ts';
import { BUCKETS } from './spend.ts';

const Count = Type.Integer();

const SpendRow = Type.Object(
  {
    bucket_start: Nullable(DateTime),
    group: Type.Record(Type.String(), Nullable(Type.String()), {
      description: 'One value for each name of group_by; null where the requests carry none.',
    }),
    requests: Type.Integer({
      description:
        'Requests, each in the row of its first attempt; where models or providers are told apart, in the row of its first attempt on each model.',
    }),
    attempts: Type.Integer({
      description: 'What was sent to a vendor: a request may be tried several times.',
    }),
    estimated_requests: Type.Integer({ description: 'Attempts whose usage was estimated.' }),
    errors: Type.Integer({ description: 'Attempts that failed at the vendor or on the way to it.' }),
    input_tokens: Count,
    cache_read_tokens: Count,
    cache_write_tokens: Count,
    cache_write_1h_tokens: Count,
    output_tokens: Count,
    cost_micro_usd: MicroUsd,
    cost_nano_usd: Type.String({ description: 'The same, exact, as a decimal integer.' }),
  },
  { title: 'SpendRow' },
);

const SpendReport = Type.Object(
  {
    ...Page(SpendRow).properties,
    from: DateTime,
    to: DateTime,
    timezone: Type.String(),
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'Usage up to then is in the answer, as far as known.',
    }),
    complete: Type.Boolean({ description: 'Whether all usage of the range is known to be in the answer.' }),
  },
  { title: 'SpendReport' },
);

const Query = Strict({
  ...PageQuery,
  ...LedgerFilterQuery,
  group_by: QueryText(
    `Names divided by commas, of ${SPEND_DIMENSIONS.join(', ')} and label:<key>; a \\ stands before a comma or \\ that belongs to a key. Without it, all is one group.`,
  ),
  bucket: Type.Optional(OneOf(BUCKETS, { description: 'Without it, the range is one.' })),
  timezone: QueryText('IANA name, for the edges of buckets and the default range; UTC where it is left out.'),
});

export function spendRoutes(app: App, deps: SpendDeps): void {
  const exports = createSpendExports(deps);
  app.get(
    '/spend',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getSpend',
        summary: 'Spend broken down by dimensions and time, as JSON or CSV',
        querystring: Query,
        response: {
          200: {
            description: 'By bucket, then by the values of the group.',
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
}
