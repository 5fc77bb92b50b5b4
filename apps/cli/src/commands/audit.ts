import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions, parseTime } from './options.ts';

export function auditCommand(cli: Cli): Command {
  return listOptions(new Command('audit'))
    .description('what was changed, by whom and when; newest first')
    .option('--resource <id>', 'only changes of this key, policy, …')
    .option('--actor <principal>', 'only changes by this principal')
    .option('--action <action>', 'only this action, such as key.created')
    .option('--from <time>', 'start: a date-time', parseTime(cli.now))
    .option('--to <time>', 'end: a date-time', parseTime(cli.now))
    .addHelpText('after', '\nExample:\n  weighbridge audit --resource key_… --json')
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = {
        ...(options.resource && { resource_id: options.resource }),
        ...(options.actor && { actor_principal_id: options.actor }),
        ...(options.action && { action: options.action }),
        ...(options.from && { from: options.from }),
        ...(options.to && { to: options.to }),
      };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/audit', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['AT', (entry) => time(entry.at)],
        ['WHO', (entry) => entry.actor_principal_id],
        ['ACTION', (entry) => entry.action],
        ['RESOURCE', (entry) => entry.resource_id],
        ['DETAIL', (entry) => JSON.stringify(entry.detail)],
      ]);
    });
}
