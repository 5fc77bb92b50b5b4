import { Command } from 'commander';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

interface ReplayArguments {
  readonly natsUrl?: string;
}

export function spoolCommand(cli: Cli): Command {
  const spool = new Command('spool').description('the folders in which proxies keep usage for the ledger');
  spool
    .command('replay')
    .description('hand over to the ledger what the spool of a proxy that is gone holds')
    .argument('<dir>', 'its SPOOL_DIR, which no process may be working on')
    .option('--nats-url <address>', "the service's NATS (NATS_URL)")
    .addHelpText(
      'after',
      "\nThe control plane, which closes the spool's epochs, is found by the settings of the data plane:\nCONTROL_PLANE_ADDRESS, CONTROL_PLANE_TOKEN and CONTROL_TLS_*. It can be run again at any time.\n\nExample:\n  weighbridge spool replay /mnt/lost-proxy/spool --nats-url nats://nats.internal:4222",
    )
    .action(async (dir: string, { natsUrl = cli.env.NATS_URL }: ReplayArguments) => {
      if (!natsUrl) throw new UsageError('Where is NATS? Name it by --nats-url, or set NATS_URL.');
      // Only here: the other commands start the quicker for not loading an app.
      const { replaySpool } = await import('@weighbridge/data-plane');
      const isDone = await replaySpool({ dir, env: { ...cli.env, NATS_URL: natsUrl }, print: cli.out });
      if (!isDone) throw new Error('Not all of it is done.');
    });
  return spool;
}
