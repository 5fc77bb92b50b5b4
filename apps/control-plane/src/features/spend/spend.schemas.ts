import { CALENDAR_UNITS } from '@weighbridge/domain';
import { SPEND_DIMENSIONS, SPEND_MEASURES, type SpendSort } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { Page, PageQuery } from '../../shared/paging.ts';
import { ByName, DateTime, MicroUsd, Nullable, OneOf, QueryInteger, Strict } from '../../shared/schemas.ts';
import { LedgerFilterQuery, QueryText } from './ledgerQuery.ts';

const Count = Type.Integer();
/** The most groups of a query with a limit. */
export const MAX_LIMIT = 100;
const DIMENSION = `\\s*(${SPEND_DIMENSIONS.join('|')}|label:([^,\\\\\\u0000]|\\\\[^\\u0000])+)\\s*`;

const ByDimension = ByName(Nullable(Type.String()), {
  title: 'SpendGroup',
  description:
    'By name in group_by. In group: its value, null for requests that have none, `(other)` for values that callers gave beyond the first 1,000 combinations of a key and day. In names: the names of ids, of key, policy, connector and team_id.',
});

const costs = {
  cost_micro_usd: MicroUsd,
  cost_nano_usd: Type.String({ description: 'The exact cost, as a decimal integer.' }),
};

const PreviousSpend = Type.Object(
  { requests: Type.Integer(), attempts: Type.Integer(), ...costs },
  {
    title: 'PreviousSpend',
    description: 'In the range of the same length before; only with compare.',
  },
);

const measures = {
  requests: Type.Integer({
    description:
      'Requests. Each counts in the row of its first attempt; if group_by names model or provider, in the row of its first attempt on each model.',
  }),
  attempts: Type.Integer({
    description: 'Attempts at vendors. A request may have several.',
  }),
  estimated_attempts: Type.Integer({ description: 'Attempts whose usage was estimated.' }),
  failed_attempts: Type.Integer({
    description:
      'Attempts that failed at the vendor or before they reached it. Their requests may have succeeded.',
  }),
  estimated_requests: Type.Integer({ description: 'An older name of estimated_attempts.' }),
  errors: Type.Integer({ description: 'An older name of failed_attempts.' }),
  input_tokens: Count,
  cache_read_tokens: Count,
  cache_write_tokens: Count,
  cache_write_1h_tokens: Count,
  output_tokens: Count,
  ...costs,
  previous: Type.Optional(PreviousSpend),
};

export const SpendRow = Type.Object(
  {
    bucket_start: Nullable(DateTime),
    group: ByDimension,
    names: ByDimension,
    others: Type.Boolean({ description: 'The sum of all groups beyond the limit.' }),
    ...measures,
  },
  { title: 'SpendRow' },
);
export type SpendRow = Static<typeof SpendRow>;
export type SpendTotal = Omit<SpendRow, 'bucket_start' | 'group' | 'names' | 'others'>;

export const SpendReport = Type.Object(
  {
    ...Page(SpendRow).properties,
    total: Type.Optional(
      Type.Object(measures, {
        title: 'SpendTotal',
        description: 'The sums of all rows, on all pages; on the first page. Each request counts once.',
      }),
    ),
    from: DateTime,
    to: DateTime,
    timezone: Type.String(),
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: usage up to this time is included, as far as known.',
    }),
    complete: Type.Boolean({
      description:
        'Whether all usage of the range is known to be included: `to` is not after `bucket_as_of`, no usage of the range is lost, missing or in quarantine, the ledger still has the rows that the query reads, and `lacks_other` is false.',
    }),
    lacks_other: Type.Boolean({
      description:
        'Whether usage that a filter by user, team, project or env may want counts under `(other)`, which the rows, or what they are compared with, lack: its key had more values on a day than have sums of their own. `getRequests` and ranges within an hour have the true values.',
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
  sort: Type.Optional(
    Type.Unsafe<SpendSort>(
      OneOf(
        SPEND_MEASURES.flatMap((measure) => [measure, `-${measure}`]),
        {
          title: 'SpendSort',
          description:
            'The order of the rows of a bucket; `-` puts the largest first. By default the values of the group; with limit -cost.',
        },
      ),
    ),
  ),
  limit: Type.Optional(
    QueryInteger({
      minimum: 1,
      maximum: MAX_LIMIT,
      description:
        'The number of groups, the first by sort over the whole range. The rest of each bucket is one row with `others`.',
    }),
  ),
  compare: Type.Optional(
    OneOf(['previous'], {
      title: 'SpendComparison',
      description:
        'Adds what each row and the total had in the range of the same length before. Not with bucket.',
    }),
  ),
  timezone: QueryText('IANA name, for the edges of buckets and the default range; UTC by default.'),
});
export type SpendRequest = Static<typeof SpendRequest>;
