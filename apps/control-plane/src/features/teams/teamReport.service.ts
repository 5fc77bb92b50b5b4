import { type BucketRef, bucketAt, bucketKey, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import { microFromNano, windowAt } from '@weighbridge/domain';
import {
  type CounterUse,
  ledgerAsOf,
  type OverrideInForce,
  overrideKey,
  readCounterUse,
  readOverrides,
  readPolicyUse,
} from '@weighbridge/ledger';
import { type Caller, ledTeamsOf, readsAllSpend } from '../../shared/caller.ts';
import { limitOf } from '../policies/limitOverride.ts';
import { findPolicy, findPolicyOfMembers, type PolicyRow } from '../policies/policies.service.ts';
import { countMembers, findMembers, findTeams, type TeamRow } from './teams.repository.ts';
import type { TeamCounter, TeamMember, TeamReport } from './teams.schemas.ts';
import { type TeamDeps, toTeam } from './teams.service.ts';
import { MAX_LISTED_MEMBERS } from './teams.ts';

const UNUSED: CounterUse = { spent: 0n, leased: 0n };

/** A team with its counter, and what each of its members has spent. A caller that is only a member sees itself. */
export async function teamReport(deps: TeamDeps, caller: Caller, team: TeamRow): Promise<TeamReport> {
  const { db } = deps;
  const seesTeam = readsAllSpend(caller) || ledTeamsOf(caller).includes(team.id);
  const asOf = await ledgerAsOf(db);
  const only = seesTeam ? undefined : caller.principalId;
  return {
    ...toTeam(team),
    counter: seesTeam ? await counterOfTeam(deps, team) : null,
    member_count: await countMembers(db, team.id),
    members: await membersOf(deps, team, only),
    bucket_as_of: asOf.toISOString(),
  };
}

/** The counters of these teams, of those that have a policy; the newest teams. */
export async function countersOfTeams(
  deps: TeamDeps,
  ids: readonly string[],
  limit: number,
): Promise<{ readonly team: TeamRow; readonly counter: TeamCounter }[]> {
  const teams = await findTeams(deps.db, { ids }, undefined, limit);
  const counted = [];
  for (const team of teams) {
    const counter = await counterOfTeam(deps, team);
    if (counter) counted.push({ team, counter });
  }
  return counted;
}

async function counterOfTeam({ db, now }: TeamDeps, team: TeamRow): Promise<TeamCounter | null> {
  const policy = team.policy_id === null ? undefined : await findPolicy(db, team.policy_id);
  if (!policy) return null;
  const use = await readPolicyUse(db, bucketOf(policy, '', now()), policy.counter_scope);
  const pooled = { policyId: policy.id, subject: POLICY_SUBJECT };
  const overrides = await readOverrides(db, [pooled], now());
  const override = overrides.get(overrideKey(pooled));
  return presentCounter({ policy, use, override, isWhole: policy.counter_scope === 'policy' }, now());
}

async function membersOf(
  { db, now }: TeamDeps,
  team: TeamRow,
  only: string | undefined,
): Promise<TeamMember[]> {
  const members = await findMembers(db, team.id, only, MAX_LISTED_MEMBERS);
  const policies = await findPolicyOfMembers(
    db,
    members.map(({ id }) => id),
  );
  const counted = members.map((member) => {
    const policy = policies.get(member.id);
    return { member, policy, bucket: policy && bucketOf(policy, principalSubject(member.id), now()) };
  });
  const uses = await readCounterUse(
    db,
    counted.flatMap(({ bucket }) => bucket ?? []),
  );
  const overrides = await readOverrides(
    db,
    counted.flatMap(({ bucket }) => bucket ?? []),
    now(),
  );
  return counted.map(({ member: { id, team_role, deactivated_at }, policy, bucket }) => ({
    principal_id: id,
    role: team_role ?? 'member',
    active: deactivated_at === null,
    counter:
      policy && bucket
        ? presentCounter(
            {
              policy,
              use: uses.get(bucketKey(bucket)) ?? UNUSED,
              override: overrides.get(overrideKey(bucket)),
              isWhole: policy.counter_scope === 'principal',
            },
            now(),
          )
        : null,
  }));
}

function bucketOf(policy: PolicyRow, subject: string, now: Date): BucketRef {
  const { start } = windowAt(policy.window_kind, policy.timezone, now);
  return bucketAt({ policyId: policy.id, counterVersion: policy.counter_version, subject }, start);
}

interface CountedUse {
  readonly policy: PolicyRow;
  readonly use: CounterUse;
  readonly override: OverrideInForce | undefined;
  /** It is the use of one counter. */
  readonly isWhole: boolean;
}

/** A sum over several counters, or a share of one, has no limit itself. */
function presentCounter(
  { policy, use: { spent, leased }, override, isWhole }: CountedUse,
  now: Date,
): TeamCounter {
  const window = windowAt(policy.window_kind, policy.timezone, now);
  const limit = isWhole ? limitOf(policy, override) : null;
  return {
    policy_id: policy.id,
    policy_name: policy.name,
    counter_scope: policy.counter_scope,
    limit_micro_usd: limit === null ? null : microFromNano(limit),
    spent_micro_usd: microFromNano(spent),
    leased_micro_usd: microFromNano(leased),
    headroom_micro_usd: limit === null ? null : Math.max(0, microFromNano(limit - spent - leased)),
    window_start: (window.end === null ? policy.counter_since : window.start).toISOString(),
    reset: window.end?.toISOString() ?? null,
  };
}
