import { bodyOf } from '@weighbridge/client';
import { Command, Option } from 'commander';
import { time } from '../session/output.ts';
import { type Cli, firstItems, openSession } from '../session/session.ts';
import { limitOf, listOptions } from './options.ts';

export function quarantineCommand(cli: Cli): Command {
  const quarantine = new Command('quarantine').description('usage that the ledger could not record');

  listOptions(quarantine.command('list'))
    .description('list usage in quarantine, oldest first')
    .addOption(
      new Option('--state <state>', 'its state')
        .choices(['held', 'released', 'discarded', 'any'])
        .default('held'),
    )
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const filter = options.state === 'any' ? {} : { state: options.state };
      const items = await firstItems(session, limitOf(options), (page) =>
        bodyOf(session.client.GET('/api/v1/quarantine', { params: { query: { ...filter, ...page } } })),
      );
      session.showList(items, [
        ['ID', (item) => item.id],
        ['RECEIVED', (item) => time(item.received_at)],
        ['KIND', (item) => item.kind],
        ['STATE', (item) => item.state],
        ['PRINCIPAL', (item) => item.principal_id],
        ['PROXY', (item) => item.epoch],
        ['REASON', (item) => item.reason],
      ]);
    });

  quarantine
    .command('show <quarantine_id>')
    .description('show one entry, with its message in base64')
    .action(async (quarantine_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { quarantine_id } };
      session.showOne(await bodyOf(session.client.GET('/api/v1/quarantine/{quarantine_id}', { params })));
    });

  quarantine
    .command('release <quarantine_id>')
    .description('record it, if this release can read it')
    .action(async (quarantine_id: string, _options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { quarantine_id } };
      session.showOne(
        await bodyOf(session.client.POST('/api/v1/quarantine/{quarantine_id}/release', { params })),
      );
    });

  quarantine
    .command('discard <quarantine_id>')
    .description('never record it; this is final')
    .requiredOption('--note <text>', 'the reason, which is recorded')
    .addHelpText('after', '\nExample:\n  weighbridge quarantine discard 7 --note "sent by a load test"')
    .action(async (quarantine_id: string, options, command: Command) => {
      const session = await openSession(cli, command);
      const params = { path: { quarantine_id } };
      const body = { note: options.note };
      session.showOne(
        await bodyOf(session.client.POST('/api/v1/quarantine/{quarantine_id}/discard', { params, body })),
      );
    });

  return quarantine;
}
