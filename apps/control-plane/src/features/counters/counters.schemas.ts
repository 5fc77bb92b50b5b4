import { COUNTER_ORDERS } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, MicroUsd, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { LimitOverride } from '../policies/limitOverride.ts';
import { CounterScope } from '../policies/policies.schemas.ts';

export const PolicyCounter = Type.Object(
  {
    principal_id: Nullable(
      Type.String({ description: "Whose counter it is; of a key's, the key's principal." }),
    ),
    key_id: Nullable(Type.String({ description: 'With counter_scope key: whose counter it is.' })),
    key_name: Nullable(Type.String()),
    spent_micro_usd: MicroUsd,
    leased_micro_usd: Type.Integer({ description: 'What proxies hold on leases, and may spend.' }),
    limit_micro_usd: Nullable(Type.Integer({ description: 'Null: unlimited.' })),
    headroom_micro_usd: Nullable(
      Type.Integer({ description: 'The limit less what is spent and leased, at least 0; null: unlimited.' }),
    ),
    override: Nullable(LimitOverride),
  },
  { title: 'PolicyCounter' },
);
export type PolicyCounter = Static<typeof PolicyCounter>;

export const PolicyCounters = Type.Object(
  {
    ...Page(PolicyCounter).properties,
    policy_id: Type.String(),
    policy_name: Type.String(),
    counter_scope: CounterScope,
    window_start: DateTime,
    reset: Nullable(DateTime),
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: usage up to this time is included, as far as known.',
    }),
  },
  { title: 'PolicyCounters' },
);
export type PolicyCounters = Static<typeof PolicyCounters>;

export const CounterQuery = Strict({
  ...PageQuery,
  sort: Type.Optional(
    OneOf(COUNTER_ORDERS, {
      title: 'CounterOrder',
      description: 'Default: -spent, the most spent first.',
    }),
  ),
  principal_id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
});
export type CounterQuery = Static<typeof CounterQuery>;
