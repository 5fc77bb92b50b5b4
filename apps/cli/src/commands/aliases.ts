import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { limitOf, listOptions } from './options.ts';

export function aliasesCommand(cli: Cli): Command {
  const aliases = new Command('aliases').description("operators' names for models and profiles");

  listOptions(aliases.command('list'))
    .description('list aliases by name')
    .option('--name <text>', 'only aliases whose name contains this')
    .option('--policy <id>', 'only aliases of this policy')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.name && { name_contains: options.name }),
        ...(options.policy && { policy_id: options.policy }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/aliases', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', (alias) => alias.id],
        ['NAME', (alias) => alias.name],
        ['TARGET', (alias) => alias.target],
        ['POLICY', (alias) => alias.policy_id],
        ['UNUSABLE', (alias) => alias.unusable_reason],
      ]);
    });

  aliases
    .command('show <alias_id>')
    .description('show an alias')
    .action(async (alias_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { alias_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/aliases/{alias_id}', { params })));
    });

  aliases
    .command('create <name> <target>')
    .description('let a name stand for a model or router/<profile>; a name may end with *')
    .option('--policy <id>', 'only for keys of this policy; default: for all')
    .addHelpText(
      'after',
      "\nExamples:\n  weighbridge aliases create fast mock/echo\n  weighbridge aliases create 'claude-*' router/cheap --policy pol_…",
    )
    .action(async (name: string, target: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const body = { name, target, ...(options.policy && { policy_id: options.policy }) };
      session.showOne(await bodyOf(session.client.POST('/api/v1/aliases', { body })));
    });

  aliases
    .command('update <alias_id>')
    .description('change the name or the target of an alias')
    .option('--name <name>', 'the new name; it may end with *')
    .option('--target <target>', 'the model, or router/<profile>, that it stands for now')
    .addHelpText('after', '\nExample:\n  weighbridge aliases update als_… --target router/cheap-chat')
    .action(async (alias_id: string, { name, target }, command: Command) => {
      if (name === undefined && target === undefined)
        throw new UsageError('Nothing to change. Give at least one option.');
      const session = await openSession(cli, command);
      const params = { path: { alias_id } };
      const body = { ...(name !== undefined && { name }), ...(target !== undefined && { target }) };
      session.showOne(await bodyOf(session.client.PATCH('/api/v1/aliases/{alias_id}', { params, body })));
    });

  aliases
    .command('delete <alias_id>')
    .description('delete an alias')
    .action(async (alias_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { alias_id } };
      session.showOne(await bodyOf(session.client.DELETE('/api/v1/aliases/{alias_id}', { params })));
    });

  return aliases;
}
