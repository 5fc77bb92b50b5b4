import { CALENDAR_UNITS } from '@weighbridge/domain';
import { SPEND_DIMENSIONS } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { Page, PageQuery } from '../../shared/paging.ts';
import { ByName, DateTime, MicroUsd, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { LedgerFilterQuery, QueryText } from './ledgerQuery.ts';

const Count = Type.Integer();
const DIMENSION = `\\s*(${SPEND_DIMENSIONS.join('|')}|label:([^,\\\\\\u0000]|\\\\[^\\u0000])+)\\s*`;

export const SpendRow = Type.Object(
  {
    bucket_start: Nullable(DateTime),
    group: ByName(Nullable(Type.String()), {
      title: 'SpendGroup',
      description: 'One value for each name in group_by; null for requests that have none.',
    }),
    requests: Type.Integer({
      description:
        'Requests. Each counts in the row of its first attempt; if group_by names model or provider, in the row of its first attempt on each model.',
    }),
    attempts: Type.Integer({
      description: 'Attempts at vendors. A request may have several.',
    }),
    estimated_requests: Type.Integer({ description: 'Attempts whose usage was estimated.' }),
    errors: Type.Integer({ description: 'Attempts that failed at the vendor or before they reached it.' }),
    input_tokens: Count,
    cache_read_tokens: Count,
    cache_write_tokens: Count,
    cache_write_1h_tokens: Count,
    output_tokens: Count,
    cost_micro_usd: MicroUsd,
    cost_nano_usd: Type.String({ description: 'The exact cost, as a decimal integer.' }),
  },
  { title: 'SpendRow' },
);
export type SpendRow = Static<typeof SpendRow>;

export const SpendReport = Type.Object(
  {
    ...Page(SpendRow).properties,
    from: DateTime,
    to: DateTime,
    timezone: Type.String(),
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: usage up to this time is included, as far as known.',
    }),
    complete: Type.Boolean({
      description:
        'Whether all usage of the range is known to be included: `to` is not after `bucket_as_of`, no usage of the range is lost, missing or in quarantine, and the ledger still has the rows that the query reads.',
    }),
  },
  { title: 'SpendReport' },
);
export type SpendReport = Static<typeof SpendReport>;

export const SpendRequest = Strict({
  ...PageQuery,
  ...LedgerFilterQuery,
  group_by: QueryText(
    `Comma-separated names out of ${SPEND_DIMENSIONS.join(', ')} and label:<key>, at most 6; escape a comma or \\ in a key with \\. By default all is one group.`,
    `^(${DIMENSION}(,${DIMENSION}){0,5})?$`,
  ),
  bucket: Type.Optional(
    OneOf(CALENDAR_UNITS, {
      title: 'SpendBucket',
      description: 'By default the range is one bucket.',
    }),
  ),
  timezone: QueryText('IANA name, for the edges of buckets and the default range; UTC by default.'),
});
export type SpendRequest = Static<typeof SpendRequest>;
