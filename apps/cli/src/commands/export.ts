import { Command } from 'commander';
import { stringify } from 'yaml';
import { readConsistently } from '../apply/currentState.ts';
import { ExportError, type Exported, exportFile } from '../apply/exportFile.ts';
import type { OpenApiSchemas } from '../apply/fileSchema.ts';
import { type Cli, openSession, type Session } from '../session/session.ts';

const MAX_READS = 5;

export function exportCommand(cli: Cli): Command {
  return new Command('export')
    .description('write what the service has as a YAML file for apply, to standard output or a file')
    .option('-o, --output <file>', 'the file, which must not exist yet')
    .option('--owner <name>', 'whose keys to export: those that `apply` issued under this name', 'apply')
    .addHelpText(
      'after',
      '\nCredentials that the service stores are not exported; those that it refers to (env:, file:) are, as references.\n\nExamples:\n  weighbridge export > gateway.yaml\n  weighbridge export -o gateway.yaml && weighbridge apply -f gateway.yaml --dry-run --exit-code',
    )
    .action(async (options, command: Command) => {
      const { loadServiceRules } = await import('../apply/serviceRules.ts');
      const { published } = await loadServiceRules();
      const session = await openSession(cli, command);
      const { file, notes } = await readExport(session, published, options.owner);
      const text = session.json
        ? JSON.stringify(file, null, 2)
        : stringify(file, { lineWidth: 120 }).trimEnd();
      if (options.output === undefined) session.out(text);
      else await session.writeFile(options.output, `${text}\n`, { isNew: true });
      for (const note of notes) session.err(note);
    });
}

/** Reads again if something was changed while the service was read. */
async function readExport(session: Session, published: OpenApiSchemas, owner: string): Promise<Exported> {
  for (let read = 1; read <= MAX_READS; read++) {
    const { state, isConsistent } = await readConsistently(session.client, owner);
    // Half of a change may look like a fault of the service's.
    if (isConsistent) return exportFile(state, published);
  }
  throw new ExportError(
    `The service changed while it was read, ${MAX_READS} times. Nothing was written: run export again when these changes are made.`,
  );
}
