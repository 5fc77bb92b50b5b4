import { getPrincipal, listPrincipals, putPrincipal } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addCall, addList } from '../resources/calls.ts';
import { time } from '../session/output.ts';
import type { Cli } from '../session/session.ts';
import { BY_NAME } from './teams.ts';

export function principalsCommand(cli: Cli): Command {
  const principals = new Command('principals').description(
    'the persons, services and teams to which spend belongs',
  );
  addList(principals.command('list'), cli, listPrincipals, {
    query: {
      team_id: { ...BY_NAME, text: 'only members of this team, by id or name' },
      role: { text: 'only with this role' },
      active: { text: 'only active ones', no: 'only those that are not active' },
      id_contains: { flag: 'name <text>' },
    },
    columns: [
      ['ID', ({ id }) => id],
      ['POLICY', ({ policy_id }) => policy_id],
      ['TEAM', ({ team_name }) => team_name],
      ['ROLE', ({ role, team_role }) => role ?? team_role],
      ['ACTIVE', ({ active }) => active],
      ['CREATED', ({ created_at }) => time(created_at)],
    ],
  });
  addCall(principals.command('show <principal_id>'), cli, getPrincipal);
  addCall(principals.command('set <principal_id>'), cli, putPrincipal, {
    flags: {
      role: { text: 'over whose objects its scopes reach, or none' },
      active: { text: 'enable its keys again', no: 'disable its keys, and refuse its tokens' },
    },
    examples: [
      'weighbridge principals set ada@example.com --policy pol_…',
      'weighbridge principals set finance@example.com --role finance',
      'weighbridge principals set leaver@example.com --no-active',
    ],
  });
  return principals;
}
