import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { type Cli, openSession } from '../session/session.ts';

export function ledgerCommand(cli: Cli): Command {
  const ledger = new Command('ledger').description('what all spend is added up from');

  ledger
    .command('rebuild')
    .description('add the ledger up anew, and say what the counters differ by')
    .option('--apply', 'mend them; usage goes on being recorded meanwhile')
    .addHelpText(
      'after',
      '\nOf a large ledger it takes minutes. Where the connection does not last as long, it goes on in the service; `weighbridge\naudit` shows when --apply is done.\n\nExamples:\n  weighbridge ledger rebuild\n  weighbridge ledger rebuild --apply',
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
      session.err(apply ? 'They are mended.' : 'Nothing was changed; --apply mends them.');
    });

  return ledger;
}
