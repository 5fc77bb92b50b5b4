import { bodyOf, type components, pages } from '@weighbridge/client';
import {
  createTeam,
  deleteTeam,
  freezeTeam,
  getTeam,
  listTeams,
  unfreezeTeam,
  updateTeam,
} from '@weighbridge/client/operations';
import { isId } from '@weighbridge/domain';
import { Command, Option } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { type Column, formatTable, time, usd } from '../session/output.ts';
import { type Cli, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

type Team = components['schemas']['Team'];
type TeamReport = components['schemas']['TeamReport'];
type TeamMember = components['schemas']['TeamMember'];

const COLUMNS: readonly Column<Team>[] = [
  ['ID', (team) => team.id],
  ['NAME', (team) => team.name],
  ['PARENT', (team) => team.parent_team_id],
  ['POLICY', (team) => team.policy_id],
  ['MEMBER POLICY', (team) => team.member_policy_id],
  ['FROZEN', (team) => team.frozen],
];

const MEMBER_COLUMNS: readonly Column<TeamMember>[] = [
  ['PRINCIPAL', (member) => member.principal_id],
  ['ROLE', (member) => member.role],
  ['ACTIVE', (member) => member.active],
  ['SPENT', ({ counter }) => (counter ? usd(counter.spent_micro_usd) : null)],
  ['LIMIT', ({ counter }) => amountOrNone(counter?.limit_micro_usd)],
  ['HEADROOM', ({ counter }) => amountOrNone(counter?.headroom_micro_usd)],
  ['BY', ({ counter }) => counter?.policy_name],
];

const NAMES = '\nA team is given by its id or its name.';
const NAMED = { help: NAMES, named: { team: ['team_id', teamIdOf] } } as const;
/** An option that takes a team. */
export const BY_NAME = { flag: 'team <team>', resolve: teamIdOf };

const FLAGS = {
  parent_team_id: { ...BY_NAME, flag: 'parent <team>', text: 'the team above, by id or name, or none' },
  policy_id: { text: 'counts for every request of the team and of the teams below it, or none' },
  member_policy_id: { text: "governs the members' keys without another policy, or none" },
};

export function teamsCommand(cli: Cli): Command {
  const teams = new Command('teams').description('people with a budget in common, and their leads');
  addList(teams.command('list'), cli, listTeams, {
    query: {
      parent_team_id: { ...BY_NAME, flag: 'parent <team>', text: 'only the teams directly below this one' },
      policy_id: { text: 'only teams with this policy, for the team or for its members' },
      frozen: { text: 'only frozen teams' },
    },
    columns: COLUMNS,
  });
  addCall(teams.command('show <team>'), cli, getTeam, {
    ...NAMED,
    description: 'show a team with its counter, and what each member has spent',
    show: showTeam,
  });
  addCall(teams.command('create <name>'), cli, createTeam, {
    flags: FLAGS,
    help: NAMES,
    examples: [
      'weighbridge teams create research --policy pol_… --member-policy pol_…',
      'weighbridge teams create vision --parent research',
    ],
  });
  addCall(teams.command('update <team>'), cli, updateTeam, {
    ...NAMED,
    flags: FLAGS,
    examples: ['weighbridge teams update vision --parent none --policy pol_…'],
  });
  addCall(teams.command('delete <team>'), cli, deleteTeam, NAMED);
  addCall(teams.command('freeze <team>'), cli, freezeTeam, NAMED);
  addCall(teams.command('unfreeze <team>'), cli, unfreezeTeam, {
    ...NAMED,
    description: 'serve a frozen team again',
  });
  teams.addCommand(membersCommand(cli));
  return teams;
}

function showTeam(session: Session, report: TeamReport): void {
  session.showOne(report, summaryOf(report));
  if (session.json) return;
  if (report.members.length > 0) session.out(`\n${formatTable(report.members, MEMBER_COLUMNS)}`);
  if (report.members.length < report.member_count)
    session.err(
      `Showing ${report.members.length} of ${report.member_count} members. principals list --team shows all.`,
    );
}

const roleOption = () =>
  new Option('--role <role>', 'a lead sees the keys, spend and requests of the team').choices([
    'member',
    'lead',
  ]);

function membersCommand(cli: Cli): Command {
  const members = new Command('members').description('who is in a team');
  addMemberList(members, cli);

  members
    .command('add <team> <principal_id...>')
    .description('put principals into a team, and take them out of those that they were in')
    .addOption(roleOption().default('member'))
    .addHelpText(
      'after',
      `${NAMES} Principals that do not exist are created.\n\nExample:\n  weighbridge teams members add research ada@example.com --role lead`,
    )
    .action(async (team: string, principals: string[], { role }, command: Command) => {
      const session = await openSession(cli, command);
      const team_id = await teamIdOf(session, team);
      const put = [];
      for (const principal_id of principals) put.push(await putMember(session, team_id, principal_id, role));
      showMemberships(session, put);
    });

  members
    .command('role <team> <principal_id> <role>')
    .description('make a member of a team its lead, or a lead a member')
    .addHelpText('after', NAMES)
    .action(async (team: string, principal_id: string, role: string, _options, command: Command) => {
      if (role !== 'member' && role !== 'lead') throw new UsageError('The role must be member or lead.');
      const session = await openSession(cli, command);
      const { id, name } = await readTeam(session, team);
      const params = { path: { principal_id } };
      const principal = await bodyOf(session.client.GET('/api/v1/principals/{principal_id}', { params }));
      // Setting the role of someone else would move them here.
      if (principal.team_id !== id)
        throw new Error(`${principal_id} is not in the team ${name}: use teams members add.`);
      showMemberships(session, [await putMember(session, id, principal_id, role)]);
    });

  members
    .command('remove <team> <principal_id...>')
    .description('take principals out of a team; they, their keys and their spend stay')
    .addHelpText('after', NAMES)
    .action(async (team: string, principals: string[], _options, command: Command) => {
      const session = await openSession(cli, command);
      const team_id = await teamIdOf(session, team);
      const removed = [];
      for (const principal_id of principals) {
        const params = { path: { team_id, principal_id } };
        const path = '/api/v1/teams/{team_id}/members/{principal_id}';
        removed.push(await bodyOf(session.client.DELETE(path, { params })));
      }
      showMemberships(session, removed);
    });
  return members;
}

function addMemberList(members: Command, cli: Cli): void {
  members
    .command('list <team>')
    .description('list the members of a team, and what each has spent; at most 1,000')
    .addHelpText('after', NAMES)
    .action(async (team: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      session.showList((await readTeam(session, team)).members, MEMBER_COLUMNS);
    });
}

async function putMember(session: Session, team_id: string, principal_id: string, role: TeamMember['role']) {
  const params = { path: { team_id, principal_id } };
  const path = '/api/v1/teams/{team_id}/members/{principal_id}';
  return await bodyOf(session.client.PUT(path, { params, body: { role } }));
}

function showMemberships(session: Session, memberships: readonly components['schemas']['TeamMembership'][]) {
  session.showList(memberships, [
    ['PRINCIPAL', (membership) => membership.principal_id],
    ['TEAM', (membership) => membership.team_id],
    ['ROLE', (membership) => membership.role],
  ]);
}

async function readTeam(session: Session, team: string): Promise<TeamReport> {
  const params = { path: { team_id: await teamIdOf(session, team) } };
  return await bodyOf(session.client.GET('/api/v1/teams/{team_id}', { params }));
}

const MAX_NAME_FILTER = 100;

/** The id of a team that is given by its id or its name: names are unique. */
async function teamIdOf(session: Session, team: string): Promise<string> {
  if (isId('team', team)) return team;
  const name_contains = team.slice(0, MAX_NAME_FILTER);
  const list = (page_token: string) =>
    bodyOf(
      session.client.GET('/api/v1/teams', {
        params: { query: { ...(name_contains && { name_contains }), page_size: 500, page_token } },
      }),
    );
  for await (const page of pages(list)) {
    const found = page.find(({ name }) => name === team);
    if (found) return found.id;
  }
  throw new Error(`There is no team with the id or name ${team}. teams list shows all.`);
}

function summaryOf(report: TeamReport): Record<string, unknown> {
  const { counter, members: _, ...team } = report;
  return {
    ...team,
    ...(counter && {
      policy_id: `${counter.policy_name} (${counter.policy_id})`,
      spent: usd(counter.spent_micro_usd),
      leased: usd(counter.leased_micro_usd),
      limit: amountOrNone(counter.limit_micro_usd),
      headroom: amountOrNone(counter.headroom_micro_usd),
      reset: time(counter.reset),
    }),
  };
}

/** A sum over several counters, or a share of one, has no limit; nor has an unlimited one. */
function amountOrNone(microUsd: number | null | undefined): string | null {
  return microUsd === null || microUsd === undefined ? null : usd(microUsd);
}
