import { Command } from 'commander';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

export function migrateCommand(cli: Cli): Command {
  return new Command('migrate')
    .description("bring the service's database to the schema of this release")
    .addHelpText(
      'after',
      '\nThe database is that of DATABASE_URL. It can be run again at any time, and beside a running service: the schema\nstays one that the release before works on. Where a migration fails, nothing of it stays.\n\nExample:\n  DATABASE_URL=postgresql://weighbridge@db.internal/weighbridge weighbridge migrate',
    )
    .action(async () => {
      const { DATABASE_URL: databaseUrl } = cli.env;
      if (!databaseUrl) throw new UsageError('Which database? Set DATABASE_URL.');
      // Only here: the other commands start the quicker for not loading what speaks to a database.
      const { migrateToLatest } = await import('@weighbridge/database');
      const { explainError } = await import('@weighbridge/runtime');
      const applied = await migrateToLatest(databaseUrl).catch((error: Error) => {
        throw new Error(explainError(error), { cause: error });
      });
      for (const name of applied) cli.out(`applied ${name}`);
      if (applied.length === 0) cli.out('nothing to do: the database has the schema of this release');
    });
}
