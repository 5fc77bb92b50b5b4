import { type Static, Type } from 'typebox';
import { PageQuery } from '../../shared/paging.ts';
import { DateTime, MicroUsd, Nullable, OneOf, QueryBoolean, Strict } from '../../shared/schemas.ts';
import { CounterScope } from '../policies/policies.schemas.ts';

/** What a principal is in its team. */
export const TeamRole = OneOf(['member', 'lead'], {
  title: 'TeamRole',
  description: 'A lead sees the keys, spend and requests of its team and of the teams below it.',
});

const name = Type.String();
const settings = {
  parent_team_id: Nullable(Type.String({ description: 'The team above; null: it is at the top.' })),
  policy_id: Nullable(
    Type.String({
      description:
        'Counts for every request of the team and of the teams below it, as a parent policy does, whatever policy governs the request.',
    }),
  ),
  member_policy_id: Nullable(
    Type.String({
      description:
        "Governs the keys of the team's members that have no policy of their own or of their principal. Without it, policy_id does.",
    }),
  ),
};
const TeamSettings = Type.Object({ name, ...settings });
export type TeamSettings = Static<typeof TeamSettings>;

const teamFields = {
  id: Type.String(),
  ...TeamSettings.properties,
  frozen: Type.Boolean({ description: 'Requests of the team and of the teams below it are refused.' }),
  frozen_at: Nullable(DateTime),
  created_at: DateTime,
  updated_at: DateTime,
};
export const Team = Type.Object(teamFields, { title: 'Team' });
export type Team = Static<typeof Team>;

export const NewTeam = Strict(
  { name, ...Type.Partial(Type.Object(settings)).properties },
  { title: 'NewTeam' },
);
export type NewTeam = Static<typeof NewTeam>;

export const TeamChanges = Strict(Type.Partial(TeamSettings).properties, { title: 'TeamChanges' });
export type TeamChanges = Static<typeof TeamChanges>;

const budget = {
  policy_id: Type.String(),
  policy_name: Type.String(),
  counter_scope: CounterScope,
  limit_micro_usd: Nullable(
    Type.Integer({
      description: 'Null: unlimited, or the figures are a sum over several counters, or a share of one.',
    }),
  ),
  spent_micro_usd: MicroUsd,
  leased_micro_usd: Type.Integer({ description: 'What proxies hold on leases, and may spend.' }),
  headroom_micro_usd: Nullable(
    Type.Integer({
      description: 'The limit less what is spent and leased, at least 0; null as the limit is.',
    }),
  ),
  window_start: DateTime,
  reset: Nullable(DateTime),
};

const TeamCounter = Type.Object(budget, {
  title: 'TeamCounter',
  description: 'What was spent under a policy in its current window.',
});
export type TeamCounter = Static<typeof TeamCounter>;

export const TeamMember = Type.Object(
  {
    principal_id: Type.String(),
    role: TeamRole,
    active: Type.Boolean({ description: 'False: its keys are disabled.' }),
    // Of the policy that governs it; null: none does.
    counter: Nullable(TeamCounter),
  },
  { title: 'TeamMember' },
);
export type TeamMember = Static<typeof TeamMember>;

export const TeamReport = Type.Object(
  {
    ...teamFields,
    // Of policy_id: the sum, if each principal or key has its own. Null without one, and for who is only a member.
    counter: Nullable(TeamCounter),
    member_count: Type.Integer(),
    members: Type.Array(TeamMember, {
      description:
        'By principal id, at most 1,000; a caller that is only a member sees itself. GET /api/v1/principals?team_id=… lists all.',
    }),
    bucket_as_of: Type.String({
      format: 'date-time',
      description: 'The watermark: usage up to this time is included, as far as known.',
    }),
  },
  { title: 'TeamReport' },
);
export type TeamReport = Static<typeof TeamReport>;

export const TeamQuery = Strict({
  ...PageQuery,
  name_contains: Type.Optional(Type.String({ minLength: 1, maxLength: 100 })),
  parent_team_id: Type.Optional(Type.String()),
  policy_id: Type.Optional(Type.String({ description: 'As policy_id or as member_policy_id.' })),
  frozen: Type.Optional(QueryBoolean('Whether the team itself is frozen.')),
});
export type TeamQuery = Static<typeof TeamQuery>;

export const MemberChanges = Strict({ role: TeamRole }, { title: 'TeamMemberChanges' });
export type MemberChanges = Static<typeof MemberChanges>;

export const Membership = Type.Object(
  { team_id: Type.String(), principal_id: Type.String(), role: TeamRole },
  { title: 'TeamMembership' },
);
export type Membership = Static<typeof Membership>;
