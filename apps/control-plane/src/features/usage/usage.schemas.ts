import { type Static, Type } from 'typebox';
import { DateTime, MicroUsd, Nullable, OneOf } from '../../shared/schemas.ts';
import { PolicyCounter } from '../counters/counters.schemas.ts';
import { LimitOverride } from '../policies/limitOverride.ts';
import { CounterScope, Enforcement } from '../policies/policies.schemas.ts';

const HeadroomCounter = Type.Object(
  {
    policy_id: Nullable(
      Type.String({
        description:
          'Null for the counter of a parent policy or of a value of attribution, unless the caller is an operator.',
      }),
    ),
    is_parent: Type.Boolean({
      description: 'Whether it is a counter of a parent policy, not of the governing one.',
    }),
    limit_id: Nullable(
      Type.String({ description: 'Of a further limit of the policy. Null also as policy_id is.' }),
    ),
    limit_name: Nullable(Type.String()),
    counter_scope: Type.String(),
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

/** A further limit that binds a key whatever its requests say. */
const UsageLimit = Type.Object(
  {
    policy_id: Type.String(),
    is_parent: Type.Boolean(),
    limit_id: Type.String(),
    limit_name: Type.String(),
    counter_scope: Type.String(),
    models: Type.Array(Type.String(), { description: 'The models that it counts. Empty: all.' }),
    enforcement: Enforcement,
    ...PolicyCounter.properties,
  },
  { title: 'UsageLimit' },
);
export type UsageLimit = Static<typeof UsageLimit>;

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
          'The smallest remainder over all counters that can refuse any request: of the governing policy and its parents, those that are enforced and have a limit, and of their further limits those that count every request. Null if there is none.',
      }),
    ),
    headroom_counter: Nullable(HeadroomCounter),
    limits: Type.Array(UsageLimit, {
      description:
        "The further limits that bind the key whatever its requests say: by key, principal and policy, and by attribution that the key locks; those for some models too. Those of parent policies, and by attribution, are for operators and auditors. Not here: limits whose counter depends on a request's attribution.",
    }),
    queried_at: DateTime,
  },
  { title: 'UsageReport' },
);
export type UsageReport = Static<typeof UsageReport>;
