import { join } from 'node:path';
import { Command, InvalidArgumentError } from 'commander';
import { checkChanges, makeChanges } from '../apply/applyPlan.ts';
import { readCurrentState, reader } from '../apply/currentState.ts';
import { type ApplyFile, ApplyFileError, mergeFiles } from '../apply/desiredState.ts';
import { type KeyOptions, keyNotes, readRevoked, readSecretFiles } from '../apply/keyChanges.ts';
import { plan } from '../apply/plan.ts';
import { planWarnings } from '../apply/planWarnings.ts';
import { PRUNABLE, parsePrune } from '../apply/prune.ts';
import { writeSecret } from '../apply/secretFiles.ts';
import { planSender } from '../apply/sendPlan.ts';
import { showPlan, summary } from '../apply/showPlan.ts';
import { withSecrets } from '../apply/webhookChanges.ts';
import { collectList, parseDuration } from '../resources/parsers.ts';
import { ExitCode } from '../session/exitCode.ts';
import { printable } from '../session/output.ts';
import { type Cli, openSession } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

type Deliver = Parameters<typeof makeChanges>[2];

const HELP = `
All files are checked before the service is contacted. The service makes all changes, or none if it refuses one.

Exit codes: 0 done, 1 refused or failed, 2 invalid command, 3 with --exit-code: there were changes to make.

Examples:
  weighbridge apply -f gateway.yaml --dry-run
  weighbridge apply -f policies.yaml -f teams/ --prune policies,profiles
  weighbridge apply -f keys.yaml --rotate checkout --grace 1h
  kustomize build . | weighbridge apply -f - --dry-run --exit-code`;

export function applyCommand(cli: Cli): Command {
  return new Command('apply')
    .description(
      'make policies, overrides, teams, principals, profiles, aliases, webhooks, keys, connectors and the catalog match YAML files',
    )
    .requiredOption(
      '-f, --file <file>',
      'a YAML file, a folder with *.yaml and *.yml files, or - for standard input; may be repeated',
      (text: string, before: readonly string[] | undefined) => [...(before ?? []), text],
    )
    .option('--dry-run', 'show and check the changes without making them')
    .option(
      '--exit-code',
      'end with 3 if there were changes to make, as when the service drifted from the files',
    )
    .option(
      '--prune <kinds>',
      `delete what the files do not name, of these kinds: ${PRUNABLE.join(', ')}. The default policies and profile stay unless named, as policies/default`,
      kinds,
    )
    .option('--owner <name>', 'whose keys the files have; other keys are left alone', 'apply')
    .option('--rotate <key>', 'give a key of the files a new secret; may be repeated', collectList)
    .option('--grace <duration>', 'with --rotate: how long the old secret still works', parseDuration, 0)
    .addHelpText('after', HELP)
    .action(async (options, command: Command) => {
      // Loaded only here, so that the other commands start faster.
      const { readApplyFile } = await import('../apply/applyFile.ts');
      const { loadServiceRules } = await import('../apply/serviceRules.ts');
      const { published, rule } = await loadServiceRules();
      const file = readAll(await sources(cli, options.file), (name, text) =>
        readApplyFile(name, text, published, rule),
      );
      const session = await openSession(cli, command);
      const prune = parsePrune(options.prune ?? []) ?? { kinds: [], named: [] };
      const current = await readCurrentState(session.client, file, prune.kinds, options.owner);
      const ofOwner = { owner: options.owner, held: await readSecretFiles(file) };
      const keyOptions: KeyOptions = {
        ...ofOwner,
        revoked: await readRevoked(reader(session.client), file, current, ofOwner),
        rotate: options.rotate ?? [],
        graceSeconds: options.grace,
      };
      assertNamed(file, keyOptions.rotate);
      const changes = plan(file, current, prune.kinds, rule, prune.named, keyOptions);
      const isDryRun: boolean = options.dryRun ?? false;

      if (!session.json && changes.length > 0) session.out(showPlan(changes));
      for (const warning of planWarnings(file, current)) session.err(printable(warning));
      const calls = withSecrets(changes, cli.env);
      const send = planSender(session.client);
      if (isDryRun) await checkChanges(send, calls, file);
      else {
        const deliver: Deliver = (secret, { target, replaces }) => writeSecret(target, secret, replaces);
        await makeChanges(send, calls, deliver, file);
      }
      if (session.json) {
        const listed = changes.map(({ action, kind, name, fields }) => ({ action, kind, name, fields }));
        session.out(JSON.stringify({ dry_run: isDryRun, changes: listed }, null, 2));
      } else session.out(`${summary(changes)}${changes.length > 0 && !isDryRun ? ': done' : ''}`);
      for (const note of keyNotes(file, current, keyOptions)) session.err(printable(note));
      if (options.exitCode && changes.length > 0) throw new ExitCode(3);
    });
}

function assertNamed({ keys }: ApplyFile, rotate: readonly string[]): void {
  const unknown = rotate.find((name) => !keys.some(({ fields }) => String(fields.name).trim() === name));
  if (unknown !== undefined) throw new UsageError(`--rotate: the files have no key ${unknown}.`);
}

function kinds(text: string, before: readonly string[] | undefined): string[] {
  const given = collectList(text, before);
  if (parsePrune(given)) return given;
  throw new InvalidArgumentError(
    `Name one or more of ${PRUNABLE.join(', ')}, policies/<name>, profiles/<name>.`,
  );
}

interface Source {
  readonly name: string;
  readonly text: string;
}

/** The errors of all files at once. */
function readAll(files: readonly Source[], read: (name: string, text: string) => ApplyFile): ApplyFile {
  const errors: string[] = [];
  const parsed = files.flatMap(({ name, text }) => {
    try {
      return [read(name, text)];
    } catch (error) {
      if (!(error instanceof ApplyFileError)) throw error;
      errors.push(error.message);
      return [];
    }
  });
  if (errors.length > 0) throw new ApplyFileError(errors.join('\n'));
  return mergeFiles(parsed);
}

async function sources(cli: Cli, given: readonly string[]): Promise<Source[]> {
  const paths: string[] = [];
  for (const path of given) {
    const names = path === '-' ? undefined : await cli.listFolder?.(path);
    if (!names) paths.push(path);
    else {
      const yaml = names.filter((name) => /\.ya?ml$/.test(name)).sort();
      if (yaml.length === 0) throw new UsageError(`The folder ${path} has no *.yaml or *.yml file.`);
      paths.push(...yaml.map((name) => join(path, name)));
    }
  }
  const repeated = paths.find((path, at) => paths.indexOf(path) !== at);
  if (repeated !== undefined) throw new UsageError(`${repeated} is given twice.`);
  return await Promise.all(
    paths.map(async (path) => ({
      name: path === '-' ? 'standard input' : path,
      text: await readText(cli, path),
    })),
  );
}

async function readText(cli: Cli, file: string): Promise<string> {
  try {
    return await cli.readFile(file);
  } catch (error) {
    throw new UsageError(`${file} can't be read: ${(error as Error).message}`);
  }
}
