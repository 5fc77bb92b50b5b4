import { ApiError } from '@weighbridge/client';
import { Command, CommanderError } from 'commander';
import { ExitCode } from '../session/exitCode.ts';
import { printable } from '../session/output.ts';
import type { Cli } from '../session/session.ts';
import { UsageError } from '../session/usageError.ts';
import { aliasesCommand } from './aliases.ts';
import { applyCommand } from './apply.ts';
import { auditCommand } from './audit.ts';
import { catalogCommand } from './catalog.ts';
import { completeCommand, completionCommand } from './completion.ts';
import { connectCommand } from './connect.ts';
import { connectorsCommand } from './connectors.ts';
import { doctorCommand } from './doctor.ts';
import { evidenceCommand } from './evidence.ts';
import { exportCommand } from './export.ts';
import { importCommand } from './import.ts';
import { keysCommand } from './keys.ts';
import { ledgerCommand } from './ledger.ts';
import { migrateCommand } from './migrate.ts';
import { modelsCommand } from './models.ts';
import { overridesCommand } from './overrides.ts';
import { policiesCommand } from './policies.ts';
import { principalsCommand } from './principals.ts';
import { profilesCommand } from './profiles.ts';
import { proxiesCommand } from './proxies.ts';
import { quarantineCommand } from './quarantine.ts';
import { requestsCommand } from './requests.ts';
import { spendCommand } from './spend.ts';
import { spoolCommand } from './spool.ts';
import { summaryCommand } from './summary.ts';
import { teamsCommand } from './teams.ts';
import { usageCommand } from './usage.ts';
import { webhooksCommand } from './webhooks.ts';
import { whoamiCommand } from './whoami.ts';

/** Each command by its name, in the order of the help. */
const COMMANDS: Readonly<Record<string, (cli: Cli) => Command>> = {
  connect: connectCommand,
  keys: keysCommand,
  summary: summaryCommand,
  usage: usageCommand,
  whoami: whoamiCommand,
  models: modelsCommand,
  policies: policiesCommand,
  overrides: overridesCommand,
  principals: principalsCommand,
  teams: teamsCommand,
  connectors: connectorsCommand,
  profiles: profilesCommand,
  aliases: aliasesCommand,
  webhooks: webhooksCommand,
  evidence: evidenceCommand,
  spend: spendCommand,
  requests: requestsCommand,
  audit: auditCommand,
  proxies: proxiesCommand,
  quarantine: quarantineCommand,
  ledger: ledgerCommand,
  apply: applyCommand,
  export: exportCommand,
  catalog: catalogCommand,
  import: importCommand,
  spool: spoolCommand,
  migrate: migrateCommand,
  doctor: doctorCommand,
  completion: completionCommand,
};

/** All commands except `up`, which main.ts adds; with arguments, at least the one that they name. */
export function createProgram(cli: Cli, args: readonly string[] = []): Command {
  const program = new Command('weighbridge')
    .description('A gateway for language models that companies trust with their money.')
    .version(cli.version)
    .option(
      '--url <address>',
      'address of the service (default: WEIGHBRIDGE_URL, else that of the service started in this folder, else http://127.0.0.1:8080)',
    )
    .option(
      '--key-file <file>',
      'file with the key or OIDC token (default: WEIGHBRIDGE_KEY, else .weighbridge/operator-key)',
    )
    .option('--json', 'print JSON, for programs')
    .addHelpText('after', '\nExit codes: 0 done, 1 refused or failed, 2 invalid command. See docs/cli.md.');
  // If a command is named first, only that one is made: making all of them takes longer than most commands do.
  const [first = ''] = args;
  const made = Object.hasOwn(COMMANDS, first) ? [first] : Object.keys(COMMANDS);
  for (const name of made) program.addCommand((COMMANDS[name] as (cli: Cli) => Command)(cli));
  program.addCommand(completeCommand(cli, program), { hidden: true });
  return program;
}

/** Runs a command, and returns the exit code: 0 done, 1 refused or failed, 2 invalid command, 3 as the command says. */
export async function runProgram(
  program: Command,
  args: readonly string[],
  cli: Cli,
): Promise<0 | 1 | 2 | 3> {
  forEveryCommand(program, (command) =>
    command.exitOverride().configureOutput({
      writeOut: (text) => cli.out(text.replace(/\n$/, '')),
      writeErr: (text) => cli.err(text.replace(/\n$/, '')),
    }),
  );
  try {
    await program.parseAsync([...args], { from: 'user' });
    return 0;
  } catch (error) {
    // Commander has already printed the error, or the requested help.
    if (error instanceof ExitCode) return error.code;
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2;
    cli.err(`weighbridge: ${explain(error)}`);
    return error instanceof UsageError ? 2 : 1;
  }
}

function explain(error: unknown): string {
  if (!(error instanceof ApiError)) return error instanceof Error ? error.message : String(error);
  const request = error.request_id ? `, ${error.request_id}` : '';
  const list = LISTS[error.code];
  const next = list === undefined ? '' : ` \`weighbridge ${list}\` shows what there is.`;
  return printable(`${error.message}${next} (${error.code}${request})`);
}

/** Where the ids are that a command takes, by the code of the error about one. */
const LISTS: Readonly<Record<string, string>> = {
  alias_not_found: 'aliases list',
  connector_not_found: 'connectors list',
  key_not_found: 'keys list',
  override_not_found: 'overrides list',
  policy_not_found: 'policies list',
  principal_not_found: 'principals list',
  profile_not_found: 'profiles list',
  proxy_not_found: 'proxies list',
  quarantine_not_found: 'quarantine list',
  request_not_found: 'requests list',
  team_not_found: 'teams list',
  webhook_not_found: 'webhooks list',
};

function forEveryCommand(command: Command, change: (command: Command) => unknown): void {
  change(command);
  for (const inner of command.commands) forEveryCommand(inner, change);
}
