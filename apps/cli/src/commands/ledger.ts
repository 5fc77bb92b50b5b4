import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { type Cli, openSession } from '../session/session.ts';

export function ledgerCommand(cli: Cli): Command {
  const ledger = new Command('ledger').description('the record that all spend is computed from');

  ledger
    .command('show')
    .description('how far the ledger is behind, what it lacks, and how much waits for it')
    .action(async (_options, command: Command) => {
      const session = await openSession(cli, command);
      session.showOne(await bodyOf(session.client.GET('/api/v1/ledger')));
    });

  ledger
    .command('rebuild')
    .description('add the ledger up again, and show how the counters differ from it')
    .option('--apply', 'correct the counters; usage is still recorded meanwhile')
    .addHelpText(
      'after',
      '\nA large ledger takes minutes. If the connection ends first, the service continues; `weighbridge audit` shows when\n--apply is done.\n\nExamples:\n  weighbridge ledger rebuild\n  weighbridge ledger rebuild --apply',
    )
    .action(async (options, command: Command) => {
      const session = await openSession(cli, command);
      const apply = options.apply ?? false;
      const rebuilt = await bodyOf(session.client.POST('/api/v1/ledger/rebuild', { body: { apply } }));
      const { events, buckets, differing, differing_hours, difference_nano_usd } = rebuilt;
      session.showOne(rebuilt, {
        events,
        counters: buckets,
        'nano-USD off': difference_nano_usd,
        'hours off': differing_hours,
        ...Object.fromEntries(differing.map((one) => [one.bucket, one.difference_nano_usd])),
      });
      if (session.json || (rebuilt.differing_buckets === 0 && differing_hours === 0)) return;
      session.err(
        apply ? 'Corrected the counters.' : 'Nothing was changed. To correct the counters, use --apply.',
      );
    });

  return ledger;
}
