import { overrideKey, readOverrides } from '@weighbridge/ledger';
import { type Static, Type } from 'typebox';
import { type Caller, rightsOf } from '../../shared/caller.ts';
import type { App } from '../../shared/fastify.ts';
import { DateTime, Nullable, OneOf } from '../../shared/schemas.ts';
import { effectiveKeyOf, policyOfCaller } from '../keys/effectiveKey.ts';
import { type KeyDeps, visibleKey } from '../keys/keys.service.ts';
import { LimitOverride, presentOverride } from '../policies/limitOverride.ts';
import { countersOfKey } from '../policies/policies.service.ts';
import { TeamRole } from '../teams/teams.schemas.ts';
import { findLine } from '../teams/teams.service.ts';
import { PolicySource } from '../usage/usage.schemas.ts';

const WhoamiTeam = Type.Object(
  {
    id: Type.String(),
    name: Type.String(),
    role: Nullable(TeamRole),
    frozen: Type.Boolean({ description: 'The team or one above it is frozen: requests are refused.' }),
  },
  { title: 'WhoamiTeam' },
);

const Whoami = Type.Object(
  {
    principal_id: Type.String(),
    credential: OneOf(['key', 'token'], {
      title: 'CredentialKind',
      description: 'An issued key, or a token of the OIDC issuer.',
    }),
    key_id: Nullable(Type.String()),
    key_name: Nullable(Type.String()),
    scopes: Type.Array(Type.String()),
    roles: Type.Array(
      OneOf(['operator', 'finance', 'auditor', 'lead', 'member'], {
        title: 'CallerRole',
        description: 'Over whose objects the scopes reach: both must allow an operation.',
      }),
    ),
    teams: Type.Array(WhoamiTeam, {
      description: 'Its own team, and those above it: their policies count for it.',
    }),
    expires_at: Nullable(DateTime),
    secret_expires_at: Nullable(
      Type.String({
        format: 'date-time',
        description:
          'When this secret stops working because the key was rotated; null: it is the current one.',
      }),
    ),
    policy_id: Nullable(
      Type.String({ description: 'The policy that governs the caller; null: none governs its principal.' }),
    ),
    policy_name: Nullable(Type.String()),
    policy_source: Nullable(PolicySource),
    override: Nullable(LimitOverride),
  },
  { title: 'Whoami' },
);
type Whoami = Static<typeof Whoami>;

export function whoamiRoutes(app: App, deps: KeyDeps): void {
  app.get(
    '/whoami',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'getWhoami',
        summary: 'Who the caller is, what it may do, and which policy governs it',
        response: { 200: Whoami },
      },
    },
    async ({ caller }) => await whoami(deps, caller),
  );
}

async function whoami(deps: KeyDeps, caller: Caller): Promise<Whoami> {
  const { identity, principalId, scopes, expiresAt } = caller;
  const key = identity.kind === 'key' ? await visibleKey(deps, caller, identity.keyId) : undefined;
  const policy = await policyOfCaller(deps.db, caller);
  return {
    principal_id: principalId,
    credential: identity.kind === 'key' ? 'key' : 'token',
    key_id: key?.id ?? null,
    key_name: key?.name ?? null,
    scopes: [...scopes],
    roles: rolesOf(caller),
    teams: await teamsOf(deps, caller),
    expires_at: expiresAt?.toISOString() ?? null,
    secret_expires_at: identity.kind === 'key' ? (identity.graceEndsAt?.toISOString() ?? null) : null,
    policy_id: policy?.id ?? null,
    policy_name: policy?.name ?? null,
    policy_source: policy?.source ?? null,
    override: policy ? await overrideOf(deps, caller) : null,
  };
}

/** What stands in for the limit of the governing policy. */
async function overrideOf({ db, now }: KeyDeps, caller: Caller): Promise<LimitOverride | null> {
  const at = now();
  const { counters } = await countersOfKey(db, await effectiveKeyOf(db, caller), at);
  const overrides = await readOverrides(db, [counters[0].bucket], at);
  return presentOverride(overrides.get(overrideKey(counters[0].bucket)));
}

function rolesOf(caller: Caller): Whoami['roles'] {
  const { role, team } = rightsOf(caller);
  // Who leads a team has its own objects and those of the team, whatever its role.
  const inTeam = team ? [team.role] : [];
  return role ? [role, ...inTeam.filter((one) => one === 'lead')] : [inTeam[0] ?? 'member'];
}

async function teamsOf({ db }: KeyDeps, caller: Caller): Promise<Whoami['teams']> {
  const { team } = rightsOf(caller);
  const line = team ? await findLine(db, team.id) : [];
  return line.map(({ id, name }, at) => ({
    id,
    name,
    role: id === team?.id ? team.role : null,
    frozen: line.slice(at).some(({ frozen_at }) => frozen_at !== null),
  }));
}
