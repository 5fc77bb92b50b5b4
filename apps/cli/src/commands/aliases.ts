import { createAlias, deleteAlias, getAlias, listAliases, updateAlias } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import type { Cli } from '../session/session.ts';

export function aliasesCommand(cli: Cli): Command {
  const aliases = new Command('aliases').description("operators' names for models and profiles");
  addList(aliases.command('list'), cli, listAliases, {
    columns: [
      ['ID', (alias) => alias.id],
      ['NAME', (alias) => alias.name],
      ['TARGET', (alias) => alias.target],
      ['POLICY', (alias) => alias.policy_id],
      ['UNUSABLE', (alias) => alias.unusable_reason],
    ],
  });
  addCall(aliases.command('show <alias_id>'), cli, getAlias);
  addCall(aliases.command('create <name> <target>'), cli, createAlias, {
    skipsEmpty: true,
    description: 'let a name stand for a model or router/<profile>; a name may end with *',
    flags: { policy_id: { text: 'only for keys of this policy, or none: for all' } },
    examples: [
      'weighbridge aliases create fast mock/echo',
      "weighbridge aliases create 'claude-*' router/cheap --policy pol_…",
    ],
  });
  addCall(aliases.command('update <alias_id>'), cli, updateAlias, {
    examples: ['weighbridge aliases update als_… --target router/cheap-chat'],
  });
  addCall(aliases.command('delete <alias_id>'), cli, deleteAlias);
  return aliases;
}
