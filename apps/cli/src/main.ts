import { readFileSync } from 'node:fs';
import { runService } from '@weighbridge/runtime';
import { Command } from 'commander';
import { up } from './up/up.ts';

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
const print = (text: string) => process.stdout.write(`${text}\n`);

const program = new Command('weighbridge')
  .description('A gateway for language models that companies trust with their money.')
  .version(version);

program
  .command('up')
  .description(
    'run everything in this process: the operator API, inference, metering, and a Postgres of its own',
  )
  .addHelpText(
    'after',
    '\nSettings come from the environment; docs/configuration.md lists them.\n\nExample:\n  PORT=9000 weighbridge up',
  )
  .action(async () => {
    process.exit(
      await runService('weighbridge', (context) => up({ env: process.env, version, print }, context)),
    );
  });

await program.parseAsync();
