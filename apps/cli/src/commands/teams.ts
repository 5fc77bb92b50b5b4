import { bodyOf, type components, pages } from '@weighbridge/client';
import { isId } from '@weighbridge/domain';
import { Command, Option } from 'commander';
import { type Column, formatTable, time, usd } from '../session/output.ts';
import { type Cli, firstItems, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { limitOf, listOptions } from './options.ts';

type Team = components['schemas']['Team'];
type TeamReport = components['schemas']['TeamReport'];
type TeamMember = components['schemas']['TeamMember'];
type TeamChanges = components['schemas']['TeamChanges'];

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

const BY_NAME = '\nA team is given by its id or its name.';

export function teamsCommand(cli: Cli): Command {
  const teams = new Command('teams').description('people with a budget in common, and their leads');
  addReads(teams, cli);
  addCreate(teams, cli);
  addUpdate(teams, cli);
  addOfOne(teams, cli, 'delete', 'delete a team without members and without teams below it');
  addOfOne(teams, cli, 'freeze', 'refuse all requests of a team and of the teams below it');
  addOfOne(teams, cli, 'unfreeze', 'serve a frozen team again');
  teams.addCommand(membersCommand(cli));
  return teams;
}

function addReads(teams: Command, cli: Cli): void {
  listOptions(teams.command('list'))
    .description('list teams, newest first')
    .option('--name <text>', 'only teams whose name contains this')
    .option('--parent <team>', 'only the teams directly below this one')
    .option('--policy <id>', 'only teams with this policy, for the team or for its members')
    .option('--frozen', 'only frozen teams')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.name && { name_contains: options.name }),
        ...(options.parent && { parent_team_id: await teamIdOf(session, options.parent) }),
        ...(options.policy && { policy_id: options.policy }),
        ...(options.frozen && { frozen: 'true' as const }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/teams', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, COLUMNS);
    });

  teams
    .command('show <team>')
    .description('show a team with its counter, and what each member has spent')
    .addHelpText('after', BY_NAME)
    .action(async (team: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const report = await readTeam(session, team);
      session.showOne(report, summaryOf(report));
      if (!session.json && report.members.length > 0)
        session.out(`\n${formatTable(report.members, MEMBER_COLUMNS)}`);
      if (!session.json && report.members.length < report.member_count)
        session.err(
          `Showing ${report.members.length} of ${report.member_count} members. principals list --team shows all.`,
        );
    });
}

function settingOptions(command: Command): Command {
  return command
    .option('--parent <team>', 'the team above, by id or name, or none')
    .option('--policy <id>', 'counts for every request of the team and of the teams below it, or none')
    .option('--member-policy <id>', "governs the members' keys without another policy, or none")
    .addHelpText('after', BY_NAME);
}

interface Settings {
  readonly name?: string;
  readonly parent?: string;
  readonly policy?: string;
  readonly memberPolicy?: string;
}

/** The body's fields of the options that were given. */
async function changesOf(session: Session, { name, parent, policy, memberPolicy }: Settings) {
  const noneAsNull = (text: string) => (text === 'none' ? null : text);
  const changes: TeamChanges = {
    ...(name !== undefined && { name }),
    ...(parent !== undefined && {
      parent_team_id: parent === 'none' ? null : await teamIdOf(session, parent),
    }),
    ...(policy !== undefined && { policy_id: noneAsNull(policy) }),
    ...(memberPolicy !== undefined && { member_policy_id: noneAsNull(memberPolicy) }),
  };
  return changes;
}

function addCreate(teams: Command, cli: Cli): void {
  settingOptions(teams.command('create <name>'))
    .description('create a team')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge teams create research --policy pol_… --member-policy pol_…\n  weighbridge teams create vision --parent research',
    )
    .action(async (name: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body = { ...(await changesOf(session, options)), name };
      session.showOne(await bodyOf(session.client.POST('/api/v1/teams', { body })));
    });
}

function addUpdate(teams: Command, cli: Cli): void {
  settingOptions(teams.command('update <team>'))
    .description('change the given settings of a team')
    .option('--name <name>', 'another name')
    .addHelpText('after', '\nExample:\n  weighbridge teams update vision --parent none --policy pol_…')
    .action(async (team: string, options, command: Command) => {
      if (Object.keys(options).length === 0)
        throw new UsageError('Nothing to change. Give at least one option.');
      const session = await openSession(cli, command);
      const body = await changesOf(session, options);
      const params = { path: { team_id: await teamIdOf(session, team) } };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/teams/{team_id}', { params, body })));
    });
}

function addOfOne(
  teams: Command,
  cli: Cli,
  verb: 'delete' | 'freeze' | 'unfreeze',
  description: string,
): void {
  teams
    .command(`${verb} <team>`)
    .description(description)
    .addHelpText('after', BY_NAME)
    .action(async (team: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { team_id: await teamIdOf(session, team) } };
      const { client } = session;
      const call = {
        delete: () => client.DELETE('/api/v1/teams/{team_id}', { params }),
        freeze: () => client.POST('/api/v1/teams/{team_id}/freeze', { params }),
        unfreeze: () => client.POST('/api/v1/teams/{team_id}/unfreeze', { params }),
      }[verb];
      session.showOne(await bodyOf(call()));
    });
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
      `${BY_NAME} Principals that do not exist are created.\n\nExample:\n  weighbridge teams members add research ada@example.com --role lead`,
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
    .addHelpText('after', BY_NAME)
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
    .addHelpText('after', BY_NAME)
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
    .addHelpText('after', BY_NAME)
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
export async function teamIdOf(session: Session, team: string): Promise<string> {
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
