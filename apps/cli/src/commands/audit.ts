import { listAudit } from '@weighbridge/client/operations';
import { Command } from 'commander';
import { addList } from '../resources/calls.ts';
import { time } from '../session/output.ts';
import type { Cli } from '../session/session.ts';

export function auditCommand(cli: Cli): Command {
  return addList(new Command('audit'), cli, listAudit, {
    description: 'what was changed, by whom and when; newest first',
    query: {
      resource_id: { text: 'only changes of this key, policy, …' },
      actor_principal_id: { flag: 'actor <principal>', text: 'only changes by this principal' },
      from: { text: 'start: a date-time' },
      to: { text: 'end: a date-time' },
    },
    examples: ['weighbridge audit --resource key_… --json'],
    columns: [
      ['AT', (entry) => time(entry.at)],
      ['WHO', (entry) => entry.actor_principal_id],
      ['ACTION', (entry) => entry.action],
      ['RESOURCE', (entry) => entry.resource_id],
      ['DETAIL', (entry) => JSON.stringify(entry.detail)],
    ],
  });
}
