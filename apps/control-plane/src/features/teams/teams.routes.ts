import { isPrincipalId } from '@weighbridge/domain';
import { raise } from '@weighbridge/errors';
import type { FastifyRequest } from 'fastify';
import { type Static, Type } from 'typebox';
import { type Caller, readsAllSpend, rightsOf } from '../../shared/caller.ts';
import type { App } from '../../shared/fastify.ts';
import { Page } from '../../shared/paging.ts';
import { versionedFields } from '../../shared/preconditions.ts';
import { deleteTeamMember, putTeamMember } from './members.service.ts';
import { teamReport } from './teamReport.service.ts';
import {
  MemberChanges,
  Membership,
  NewTeam,
  Team,
  TeamChanges,
  TeamQuery,
  TeamReport,
} from './teams.schemas.ts';
import {
  changeTeam,
  createTeam,
  deleteTeam,
  existingTeam,
  listTeams,
  setFrozen,
  type TeamDeps,
  type TeamRow,
} from './teams.service.ts';
import { memberNotFound, teamNotFound } from './teams.ts';

const TeamParams = Type.Object({ team_id: Type.String() });
const MemberParams = Type.Object({ team_id: Type.String(), principal_id: Type.String() });

const VERSIONED = { versioned: versionedFields(Team) } as const;

const teamIdOf = ({ params }: FastifyRequest) => (params as Static<typeof TeamParams>).team_id;

export function teamRoutes(app: App, deps: TeamDeps): void {
  readRoutes(app, deps);
  changeRoutes(app, deps);
  freezeRoutes(app, deps);
  memberRoutes(app, deps);
}

/** The teams that exist for a caller: those that it leads, and its own; undefined: all. */
function visibleTeamIds(caller: Caller): readonly string[] | undefined {
  if (readsAllSpend(caller)) return undefined;
  const { team, ledTeamIds } = rightsOf(caller);
  return [...new Set([...(team ? [team.id] : []), ...ledTeamIds])];
}

function readRoutes(app: App, deps: TeamDeps): void {
  const visibleTeam = async (request: FastifyRequest): Promise<TeamRow> => {
    const team = await existingTeam(deps.db, teamIdOf(request));
    const ids = visibleTeamIds(request.caller);
    return ids === undefined || ids.includes(team.id) ? team : raise(teamNotFound());
  };

  app.get(
    '/teams',
    {
      config: { scope: 'usage:read' },
      schema: {
        operationId: 'listTeams',
        summary: 'List teams, newest first',
        description: 'All teams; without a role that sees all, your own and those that you lead.',
        querystring: TeamQuery,
        response: { 200: Page(Team) },
      },
    },
    async ({ caller, query }) => await listTeams(deps, query, visibleTeamIds(caller)),
  );

  app.get(
    '/teams/:team_id',
    {
      config: { ...VERSIONED, scope: 'usage:read', assertExists: visibleTeam },
      schema: {
        operationId: 'getTeam',
        summary: 'Retrieve a team with its counter, and what each member has spent',
        params: TeamParams,
        response: { 200: TeamReport },
      },
    },
    async (request) => await teamReport(deps, request.caller, await visibleTeam(request)),
  );
}

const CHANGES = { scope: 'operator', propagates: true } as const;

function changeRoutes(app: App, deps: TeamDeps): void {
  const config = {
    ...CHANGES,
    ...VERSIONED,
    assertExists: async (request: FastifyRequest) => await existingTeam(deps.db, teamIdOf(request)),
  };

  app.post(
    '/teams',
    {
      config: { ...CHANGES, ...VERSIONED },
      schema: { operationId: 'createTeam', summary: 'Create a team', body: NewTeam, response: { 201: Team } },
    },
    async ({ caller, body }, reply) => reply.code(201).send(await createTeam(deps, caller, body)),
  );

  app.patch(
    '/teams/:team_id',
    {
      config,
      schema: {
        operationId: 'updateTeam',
        summary: 'Update a team',
        params: TeamParams,
        body: TeamChanges,
        response: { 200: Team },
      },
    },
    async ({ caller, params, body, assertMatch }) =>
      await changeTeam(deps, caller, params.team_id, body, assertMatch),
  );

  app.delete(
    '/teams/:team_id',
    {
      config,
      schema: {
        operationId: 'deleteTeam',
        summary: 'Delete a team without members and without teams below it',
        params: TeamParams,
        response: { 200: Team },
      },
    },
    async ({ caller, params, assertMatch }) => await deleteTeam(deps, caller, params.team_id, assertMatch),
  );
}

function freezeRoutes(app: App, deps: TeamDeps): void {
  const config = {
    ...CHANGES,
    ...VERSIONED,
    dependsOn: VERSIONED.versioned,
    assertExists: async (request: FastifyRequest) => await existingTeam(deps.db, teamIdOf(request)),
  };

  app.post(
    '/teams/:team_id/freeze',
    {
      config,
      schema: {
        operationId: 'freezeTeam',
        summary: 'Refuse all requests of a team and of the teams below it',
        description:
          'Requests of their members are refused with 403 `team_frozen`, those in flight end as they would. The operator API still answers their keys.',
        params: TeamParams,
        response: { 200: Team },
      },
    },
    async ({ caller, params, assertMatch }) =>
      await setFrozen(deps, caller, params.team_id, true, assertMatch),
  );

  app.post(
    '/teams/:team_id/unfreeze',
    {
      config,
      schema: {
        operationId: 'unfreezeTeam',
        summary: 'Serve a frozen team again',
        params: TeamParams,
        response: { 200: Team },
      },
    },
    async ({ caller, params, assertMatch }) =>
      await setFrozen(deps, caller, params.team_id, false, assertMatch),
  );
}

function memberRoutes(app: App, deps: TeamDeps): void {
  const assertExists = async (request: FastifyRequest): Promise<void> => {
    await existingTeam(deps.db, teamIdOf(request));
    if (!isPrincipalId((request.params as Static<typeof MemberParams>).principal_id)) throw memberNotFound();
  };
  const config = { ...CHANGES, assertExists };
  const idsOf = ({ team_id, principal_id }: Static<typeof MemberParams>) => {
    return { teamId: team_id, principalId: principal_id };
  };

  app.put(
    '/teams/:team_id/members/:principal_id',
    {
      config,
      schema: {
        operationId: 'putTeamMember',
        summary: 'Put a principal into a team',
        description:
          'The principal is created if it does not exist. It leaves the team that it was in: a principal is in one team at most.',
        params: MemberParams,
        body: MemberChanges,
        response: { 200: Membership },
      },
    },
    async ({ caller, params, body }) => await putTeamMember(deps, caller, idsOf(params), body),
  );

  app.delete(
    '/teams/:team_id/members/:principal_id',
    {
      config,
      schema: {
        operationId: 'deleteTeamMember',
        summary: 'Take a principal out of a team',
        description: 'The principal, its keys and its spend stay.',
        params: MemberParams,
        response: { 200: Membership },
      },
    },
    async ({ caller, params }) => await deleteTeamMember(deps, caller, idsOf(params)),
  );
}
