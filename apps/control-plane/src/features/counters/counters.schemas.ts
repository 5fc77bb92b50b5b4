import { COUNTER_ORDERS } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { Page, PageQuery } from '../../shared/paging.ts';
import { DateTime, MicroUsd, Nullable, OneOf, Strict } from '../../shared/schemas.ts';
import { MAX_VALUE_LENGTH } from '../policies/definedCounters.ts';
import { LimitOverride } from '../policies/limitOverride.ts';

export const PolicyCounter = Type.Object(
  {
    counter: Type.String({
      description:
        'What it is of: a `key`, a `principal`, the whole `policy`, or a value of attribution, such as `user`. Of a limit by attribution also `unknown`, for requests without it, and `others`, for values beyond max_counters.',
    }),
    principal_id: Nullable(
      Type.String({ description: "Whose counter it is; of a key's, the key's principal." }),
    ),
    key_id: Nullable(Type.String({ description: 'With counter_scope key: whose counter it is.' })),
    key_name: Nullable(Type.String()),
    value: Nullable(
      Type.String({ description: 'With a counter_scope by attribution: whose counter it is.' }),
    ),
    value_sha256: Nullable(
      Type.String({ description: 'Instead of a value of more than 256 bytes: its SHA-256, in hex.' }),
    ),
    spent_micro_usd: MicroUsd,
    leased_micro_usd: Type.Integer({ description: 'What proxies hold on leases, and may spend.' }),
    limit_micro_usd: Nullable(Type.Integer({ description: 'Null: unlimited.' })),
    headroom_micro_usd: Nullable(
      Type.Integer({ description: 'The limit less what is spent and leased, at least 0; null: unlimited.' }),
    ),
    override: Nullable(LimitOverride),
    last_used_at: Nullable(
      Type.String({
        format: 'date-time',
        description:
          'When the latest request that counts in it ended, as far as it is in the ledger. Null: none has, or none since an upgrade to a release that records it.',
      }),
    ),
    reset: Nullable(DateTime),
  },
  { title: 'PolicyCounter' },
);
export type PolicyCounter = Static<typeof PolicyCounter>;

export const PolicyCounters = Type.Object(
  {
    ...Page(PolicyCounter).properties,
    policy_id: Type.String(),
    policy_name: Type.String(),
    limit_id: Nullable(Type.String({ description: 'The further limit that was asked for.' })),
    limit_name: Nullable(Type.String()),
    counter_scope: Type.String({ description: 'Of the policy, or of the further limit.' }),
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
  limit_id: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 100,
      description: 'The counters of this further limit of the policy, by its id or name.',
    }),
  ),
  value: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: MAX_VALUE_LENGTH,
      description: 'With limit_id: the counter of this value of attribution.',
    }),
  ),
});
export type CounterQuery = Static<typeof CounterQuery>;
