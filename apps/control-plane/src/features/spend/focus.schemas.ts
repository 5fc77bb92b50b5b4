import { type Static, Type } from 'typebox';
import { OneOf, Strict } from '../../shared/schemas.ts';
import { LedgerFilterQuery } from './ledgerQuery.ts';

const Midnight = (description: string) => Type.Optional(Type.String({ format: 'date-time', description }));

/** The first columns of a row. */
export const FOCUS_EXAMPLE =
  'BilledCost,BillingAccountId,BillingAccountName,BillingCurrency\r\n0.0001285,con_01kafyq2s0e5fvf6m8x4n9r7td,openai,USD\r\n';

export const PARQUET = 'application/vnd.apache.parquet';

export const FocusRequest = Strict({
  ...LedgerFilterQuery,
  from: Midnight('The first day: its midnight in UTC. By default the day before the last.'),
  to: Midnight('The end, exclusive: a midnight in UTC, at most 31 days later. By default that of today.'),
  format: Type.Optional(
    OneOf(['csv', 'parquet'], {
      title: 'FocusFormat',
      description: `The format of the file. By default what \`Accept\` prefers: text/csv or ${PARQUET}.`,
    }),
  ),
});
export type FocusRequest = Static<typeof FocusRequest>;
