import { bodyOf } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { limitOf, listOptions } from './options.ts';
import { teamIdOf } from './teams.ts';

const ROLES = ['operator', 'finance', 'auditor'] as const;

export function principalsCommand(cli: Cli): Command {
  const principals = new Command('principals').description(
    'the persons, services and teams to which spend belongs',
  );

  listOptions(principals.command('list'))
    .description('list principals by id')
    .option('--policy <id>', 'only with this policy')
    .option('--team <team>', 'only members of this team, by id or name')
    .addOption(new Option('--role <role>', 'only with this role').choices(ROLES))
    .option('--active', 'only active ones')
    .option('--no-active', 'only those that are not active')
    .option('--name <text>', 'only ids that contain this')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.policy && { policy_id: options.policy }),
        ...(options.team && { team_id: await teamIdOf(session, options.team) }),
        ...(options.role && { role: options.role }),
        ...(options.active !== undefined && { active: String(options.active) as 'true' | 'false' }),
        ...(options.name && { id_contains: options.name }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/principals', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', ({ id }) => id],
        ['POLICY', ({ policy_id }) => policy_id],
        ['TEAM', ({ team_name }) => team_name],
        ['ROLE', ({ role, team_role }) => role ?? team_role],
        ['ACTIVE', ({ active }) => active],
        ['CREATED', ({ created_at }) => time(created_at)],
      ]);
    });

  principals
    .command('show <principal_id>')
    .description('show a principal')
    .action(async (principal_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { principal_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/principals/{principal_id}', { params })));
    });

  principals
    .command('set <principal_id>')
    .description('create a principal, or change its policy, its role or whether it is active')
    .option('--policy <policy_id>', 'the policy that governs it, or none')
    .addOption(
      new Option('--role <role>', 'over whose objects its scopes reach, or none').choices([...ROLES, 'none']),
    )
    .option('--active', 'enable its keys again')
    .option('--no-active', 'disable its keys, and refuse its tokens')
    .addHelpText(
      'after',
      '\nExamples:\n  weighbridge principals set ada@example.com --policy pol_…\n  weighbridge principals set finance@example.com --role finance\n  weighbridge principals set leaver@example.com --no-active',
    )
    .action(async (principal_id: string, { policy, role, active }, command: Command) => {
      if (policy === undefined && role === undefined && active === undefined)
        throw new UsageError('Nothing to set. Give at least one of --policy, --role, --active, --no-active.');
      const session = await openSession(cli, command);
      const params = { path: { principal_id } };
      const noneAsNull = <T extends string>(text: T) => (text === 'none' ? null : text);
      const body = {
        ...(policy !== undefined && { policy_id: noneAsNull(policy) }),
        ...(role !== undefined && { role: noneAsNull(role) }),
        ...(active !== undefined && { active }),
      };
      session.showOne(
        await bodyOf(session.client.PUT('/api/v1/principals/{principal_id}', { params, body })),
      );
    });

  return principals;
}
