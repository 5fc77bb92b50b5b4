import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

export function principalsCommand(cli: Cli): Command {
  const principals = new Command('principals').description(
    'the persons, services and teams to which spend belongs',
  );

  listOptions(principals.command('list'))
    .description('list principals by id')
    .option('--policy <id>', 'only with this policy')
    .option('--name <text>', 'only ids that contain this')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.policy && { policy_id: options.policy }),
        ...(options.name && { id_contains: options.name }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/principals', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', ({ id }) => id],
        ['POLICY', ({ policy_id }) => policy_id],
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
    .description('create a principal, or change its policy')
    .requiredOption('--policy <policy_id>', 'the policy that governs it, or none')
    .addHelpText('after', '\nExample:\n  weighbridge principals set ada@example.com --policy pol_…')
    .action(async (principal_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { principal_id } };
      const body = { policy_id: options.policy === 'none' ? null : (options.policy as string) };
      session.showOne(
        await bodyOf(session.client.PUT('/api/v1/principals/{principal_id}', { params, body })),
      );
    });

  return principals;
}
