import { createHash } from 'node:crypto';
import { bodyOf } from '@weighbridge/client';
import { Command } from 'commander';
import { stringify } from 'yaml';
import { listAll, reader } from '../apply/currentState.ts';
import type { Json } from '../apply/desiredState.ts';
import { mapConfig, parseConfig } from '../litellm/config.ts';
import { EVERYONE, mapEveryone } from '../litellm/everyone.ts';
import { type KeyToIssue, mapKeys } from '../litellm/keys.ts';
import { createReport, reportLines } from '../litellm/report.ts';
import { readRows } from '../litellm/rows.ts';
import { printable } from '../session/output.ts';
import { type Cli, openSession, type Session } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';

const NO_GROUPS: ReadonlyMap<string, readonly string[]> = new Map();
const SECRET_MODE = 0o600;

export function importCommand(cli: Cli): Command {
  const command = new Command('import').description('move from another gateway to Weighbridge');
  command
    .command('litellm')
    .description("convert LiteLLM's config.yaml, prices and keys into a file for apply, with a report")
    .option('--config <file>', "LiteLLM's config.yaml")
    .option('--prices <file>', "LiteLLM's model_prices_and_context_window.json, for the models in use")
    .option(
      '--keys <file>',
      "LiteLLM's keys with their budgets: the response of /key/list?return_full_object=true, or a CSV",
    )
    .option('--teams <file>', "LiteLLM's teams with their budgets: the response of /team/list, or a CSV")
    .option(
      '--customers <file>',
      "LiteLLM's customers (end users) with their budgets: the response of /customer/list, or a CSV",
    )
    .option('--out <file>', 'write the file for apply here')
    .option(
      '--issue-keys <file>',
      'after apply: issue the keys, and write their secrets to this new file (mode 0600)',
    )
    .option('--dry-run', 'print the report, and write nothing')
    .addHelpText(
      'after',
      '\nNothing is sent to LiteLLM. LiteLLM stores only hashes of keys, so every user gets a new key.\n\nExamples:\n  weighbridge import litellm --config config.yaml --keys keys.json --dry-run\n  weighbridge import litellm --config config.yaml --keys keys.json --out gateway.yaml\n  weighbridge apply -f gateway.yaml\n  weighbridge import litellm --config config.yaml --keys keys.json --issue-keys new-keys.jsonl',
    )
    .action(async (options, invoked: Command) => {
      if (!options.config && !options.keys) throw new UsageError('Give --config, --keys, or both.');
      if (!options.out && !options.issueKeys && !options.dryRun)
        throw new UsageError(
          'Give --out to write the file, --issue-keys to issue the keys, or --dry-run for the report alone.',
        );
      const read = async (file: string | undefined) => (file ? await readText(cli, file) : undefined);
      const [config, prices, keys, teams, customers] = [
        await read(options.config),
        await read(options.prices),
        await read(options.keys),
        await read(options.teams),
        await read(options.customers),
      ];
      const report = createReport();
      const listed = prices === undefined ? undefined : parseJson(prices, options.prices);
      const { rule } = await (await import('../apply/serviceRules.ts')).loadServiceRules();
      const check = (alias: Json) => rule('aliases', alias, true);
      const settings = config === undefined ? undefined : parseConfig(config);
      const sections = settings && mapConfig(settings, listed, check, report);
      const rows = keys === undefined ? [] : readRows(keys, options.keys);
      const groups = sections?.groups ?? NO_GROUPS;
      const teamRows = teams === undefined ? [] : readRows(teams, options.teams);
      const customerRows = customers === undefined ? [] : readRows(customers, options.customers);
      const now = cli.now();
      const everyone = mapEveryone(settings ?? {}, customerRows, now, report);
      const above = everyone.policies.length > 0 ? EVERYONE : undefined;
      const people = mapKeys(rows, teamRows, groups, { now, above }, report);
      const json = invoked.optsWithGlobals().json === true;

      if (options.out && !options.dryRun) {
        const file = {
          models: sections?.models ?? [],
          connectors: sections?.connectors ?? [],
          profiles: sections?.profiles ?? [],
          aliases: sections?.aliases ?? [],
          webhooks: sections?.webhooks ?? [],
          policies: [...everyone.policies, ...people.policies],
          teams: people.teams,
          principals: people.principals,
          overrides: everyone.overrides,
        };
        const filled = Object.fromEntries(Object.entries(file).filter(([, some]) => some.length > 0));
        await cli.writeFile(options.out, stringify(filled, { aliasDuplicateObjects: false }));
      }
      if (json)
        cli.out(JSON.stringify({ dry_run: options.dryRun ?? false, mappings: report.mappings }, null, 2));
      else for (const line of reportLines(report)) cli.out(printable(line));
      if (options.issueKeys && !options.dryRun) {
        const session = await openSession(cli, invoked);
        const issued = await issueKeys(session, people.keys, options.issueKeys);
        cli.err(`Issued ${issued} keys. Their secrets are only in ${options.issueKeys}.`);
      }
    });
  return command;
}

function parseJson(text: string, file: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${file} is not JSON.`);
  }
}

async function readText(cli: Cli, file: string): Promise<string> {
  try {
    return await cli.readFile(file);
  } catch (error) {
    throw new UsageError(`${file} can't be read: ${(error as Error).message}`);
  }
}

/** Writes each secret as soon as it is issued, so that an interruption loses none. Returns the number of keys. */
async function issueKeys(session: Session, keys: readonly KeyToIssue[], file: string): Promise<number> {
  const policies = await listAll(reader(session.client), '/api/v1/policies');
  const ids = new Map(policies.map(({ name, id }) => [name, String(id)]));
  const missing = keys.find(({ policy }) => policy !== undefined && !ids.has(policy));
  if (missing) throw new Error(`The policy ${missing.policy} does not exist yet. Apply the file first.`);
  let written = '';
  // Created before the first key: a secret that can't be written would be lost.
  await session.writeFile(file, written, { mode: SECRET_MODE, isNew: true });
  for (const key of keys) {
    const issued = await bodyOf(
      session.client.POST('/api/v1/keys', {
        // A second run within 24 hours gets the same keys.
        headers: { 'idempotency-key': `litellm-${createHash('sha256').update(key.origin).digest('hex')}` },
        body: {
          name: key.name,
          principal_id: key.principal,
          scopes: ['inference'],
          ...(key.policy !== undefined && { policy_id: ids.get(key.policy) as string }),
          ...(key.disabled && { disabled: true }),
          ...(key.expiresAt !== undefined && { expires_at: key.expiresAt }),
        },
      }),
    );
    const line: Json = { name: key.name, principal_id: key.principal, id: issued.id, key: issued.key };
    written += `${JSON.stringify(line)}\n`;
    await session.writeFile(file, written, { mode: SECRET_MODE });
  }
  return keys.length;
}
