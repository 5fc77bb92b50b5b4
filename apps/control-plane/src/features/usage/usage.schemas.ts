import { type Static, Type } from 'typebox';
import { DateTime, MicroUsd, Nullable, OneOf } from '../../shared/schemas.ts';
import { LimitOverride } from '../policies/limitOverride.ts';
import { CounterScope } from '../policies/policies.schemas.ts';

const HeadroomCounter = Type.Object(
  {
    policy_id: Nullable(
      Type.String({ description: "Null for a parent policy's counter, unless the caller is an operator." }),
    ),
    is_parent: Type.Boolean({
      description: 'Whether it is a counter of a parent policy, not of the governing one.',
    }),
    counter_scope: CounterScope,
    limit_micro_usd: Nullable(Type.Integer({ description: 'Null as policy_id is.' })),
    spent_micro_usd: Nullable(Type.Integer({ description: 'Null as policy_id is.' })),
    reset: Nullable(DateTime),
  },
  { title: 'HeadroomCounter' },
);
export type HeadroomCounter = Static<typeof HeadroomCounter>;

export const PolicySource = OneOf(['key', 'principal', 'team', 'default'], {
  title: 'PolicySource',
  description: 'Where the governing policy comes from.',
});

/** Spend of a key against its governing policy. Amounts are micro-USD, rounded half up. */
export const UsageReport = Type.Object(
  {
    policy_id: Type.String(),
    source: PolicySource,
    active: Type.Boolean(),
    counter_scope: CounterScope,
    pooled: Type.Boolean(),
    limit_micro_usd: Nullable(MicroUsd),
    override: Nullable(LimitOverride),
    window_start: DateTime,
    reset: Nullable(DateTime),
    window_unbounded: Type.Boolean(),
    bucket_spent_micro_usd: MicroUsd,
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: all usage that proxies settled before this time is included.',
    }),
    principal_spent_micro_usd: Type.Integer({
      description: "The principal's spend over all its keys under this policy in this window.",
    }),
    principal_spent_from: Type.String({
      format: 'date-time',
      description: "The window's start, or a later time if older rows of the ledger were deleted.",
    }),
    principal_spent_complete: Type.Boolean({
      description:
        'Whether no usage is known to be missing: no proxy is lost, no event is missing or in quarantine.',
    }),
    remaining_micro_usd: Nullable(MicroUsd),
    headroom_micro_usd: Nullable(
      Type.Integer({
        description:
          'The smallest remainder over all counters that can refuse a request: of the governing policy and its parents, those that are enforced and have a limit. Null if there is none.',
      }),
    ),
    headroom_counter: Nullable(HeadroomCounter),
    queried_at: DateTime,
  },
  { title: 'UsageReport' },
);
export type UsageReport = Static<typeof UsageReport>;
