import { Command } from 'commander';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

interface ReplayArguments {
  readonly natsUrl?: string;
}

export function spoolCommand(cli: Cli): Command {
  const spool = new Command('spool').description(
    'folders in which proxies store usage until the ledger has it',
  );
  spool
    .command('replay')
    .description('send what an orphaned spool holds to the ledger')
    .argument('<dir>', 'the SPOOL_DIR of the proxy; no process may use it')
    .option('--nats-url <address>', "the service's NATS (NATS_URL)")
    .addHelpText(
      'after',
      "\nIt needs the control plane, which closes the spool's epochs, and finds it by the settings of the data plane:\nCONTROL_PLANE_ADDRESS, CONTROL_PLANE_TOKEN and CONTROL_TLS_*. You can run it again at any time.\n\nExample:\n  weighbridge spool replay /mnt/lost-proxy/spool --nats-url nats://nats.internal:4222",
    )
    .action(async (dir: string, { natsUrl = cli.env.NATS_URL }: ReplayArguments) => {
      if (!natsUrl) throw new UsageError('No NATS address. Give --nats-url, or set NATS_URL.');
      // Loaded only here, so that the other commands start faster.
      const { replaySpool } = await import('@weighbridge/data-plane');
      const isDone = await replaySpool({ dir, env: { ...cli.env, NATS_URL: natsUrl }, print: cli.out });
      if (!isDone) throw new Error('The replay is incomplete. Fix the problems above and run it again.');
    });
  return spool;
}
