import { MAX_LIMIT_MICRO_USD } from '@weighbridge/domain';
import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, Nullable, QueryBoolean, Strict } from '../../shared/schemas.ts';
import { MAX_VALUE_LENGTH } from '../policies/definedCounters.ts';
import { MAX_DURATION_SECONDS } from './overrides.ts';

const limit_micro_usd = Type.Integer({
  minimum: 0,
  maximum: MAX_LIMIT_MICRO_USD,
  description: "The counter's limit meanwhile, higher or lower than the policy's. 0 freezes it.",
});
const reason = Type.String({
  minLength: 1,
  maxLength: 500,
  description: 'Why; shown to whoever may see the counter.',
  examples: ['evaluation for the launch'],
});
const ends_at = Type.String({
  format: 'date-time',
  description: 'When the limit of the policy holds again; at most 366 days ahead.',
});

export const Override = Type.Object(
  {
    id: Type.String(),
    policy_id: Type.String(),
    policy_name: Type.String(),
    limit_id: Nullable(Type.String({ description: 'The further limit of the policy whose counter it is.' })),
    limit_name: Nullable(Type.String()),
    counter_scope: Type.String({ description: 'Of the policy, or of the further limit.' }),
    principal_id: Nullable(
      Type.String({ description: "Whose counter it is; of a key's, the key's principal." }),
    ),
    key_id: Nullable(Type.String({ description: 'With counter_scope key: whose counter it is.' })),
    value: Nullable(
      Type.String({ description: 'With a counter_scope by attribution: whose counter it is.' }),
    ),
    limit_micro_usd,
    reason,
    active: Type.Boolean({
      description:
        'It stands in for the limit of the policy now: it has not ended, and the policy still has a limit and counts as counter_scope says.',
    }),
    ends_at,
    ended_at: Nullable(
      Type.String({ format: 'date-time', description: 'Earlier than ends_at if an operator ended it.' }),
    ),
    created_by: Type.String({ description: 'The principal that created it.' }),
    created_at: DateTime,
    updated_at: DateTime,
  },
  { title: 'Override' },
);
export type Override = Static<typeof Override>;

export const NewOverride = Strict(
  {
    policy_id: Type.String(),
    principal_id: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 200,
        description: 'Whose counter, with counter_scope principal.',
      }),
    ),
    key_id: Type.Optional(Type.String({ description: 'Whose counter, with counter_scope key.' })),
    limit_id: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 100,
        description: 'A further limit of the policy, by its id or name: the counter is one of its.',
      }),
    ),
    value: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: MAX_VALUE_LENGTH,
        description:
          'With limit_id, of a limit by attribution: whose counter. One that no request has named yet is fine.',
      }),
    ),
    limit_micro_usd,
    reason,
    ends_at: Type.Optional(ends_at),
    duration_seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: MAX_DURATION_SECONDS,
        description: 'Instead of ends_at: for how long, from now.',
      }),
    ),
  },
  { title: 'NewOverride' },
);
export type NewOverride = Static<typeof NewOverride>;

export const OverrideChanges = Strict(
  {
    limit_micro_usd: Type.Optional(limit_micro_usd),
    reason: Type.Optional(reason),
    ends_at: Type.Optional(ends_at),
  },
  { title: 'OverrideChanges' },
);
export type OverrideChanges = Static<typeof OverrideChanges>;

export const OverrideQuery = Strict({
  ...PageQuery,
  policy_id: Type.Optional(Type.String()),
  principal_id: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
  limit_id: Type.Optional(
    Type.String({ minLength: 1, maxLength: 100, description: 'Only those of this further limit.' }),
  ),
  active: Type.Optional(QueryBoolean('Whether it stands in for the limit of its policy now.')),
});
export type OverrideQuery = Static<typeof OverrideQuery>;
