import { Command } from 'commander';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description("migrate the service's database to this release's schema")
    .addHelpText(
      'after',
      '\nDATABASE_URL names the database. You can run it again at any time, also beside a running service: the previous\nrelease works on the new schema. A migration that fails is rolled back.\n\nExample:\n  DATABASE_URL=postgresql://weighbridge@db.internal/weighbridge weighbridge migrate',
    )
    .action(async () => {
      const { DATABASE_URL: databaseUrl } = cli.env;
      if (!databaseUrl)
        throw new UsageError('DATABASE_URL is missing. Set DATABASE_URL to the database to migrate.');
      // Loaded only here, so that the other commands start faster.
      const { migrateToLatest } = await import('@weighbridge/database');
      const { explainError } = await import('@weighbridge/runtime');
      const applied = await migrateToLatest(databaseUrl).catch((error: Error) => {
        throw new Error(explainError(error), { cause: error });
      });
      for (const name of applied) cli.out(`applied ${name}`);
      if (applied.length === 0) cli.out("nothing to do: the database has this release's schema");
    });
}
