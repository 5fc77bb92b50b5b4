import { Command } from 'commander';
import { DEPLOYMENT_SETTINGS, deploymentChecks } from '../doctor/deploymentChecks.ts';
import { type Finding, type Level, skipped } from '../doctor/finding.ts';
import { operatorChecks } from '../doctor/operatorChecks.ts';
import { serviceChecks } from '../doctor/serviceChecks.ts';
import { printable } from '../session/output.ts';
import { type Cli, openSession, type Session } from '../session/session.ts';
import type { GlobalOptions } from '../session/settings.ts';
import { UsageError } from '../session/usageError.ts';

const SIGNS: Readonly<Record<Level, string>> = { ok: '✓', warn: '!', fail: '✗', skipped: '-' };

export function doctorCommand(cli: Cli): Command {
  return new Command('doctor')
    .description('check a deployment part by part, and say what is wrong and what to do')
    .option('--live', "also check each connector's credential at its vendor; nothing is generated or billed")
    .addHelpText(
      'after',
      '\nIt checks the service through its API. With these settings of the apps, it also checks what is behind the API:\nDATABASE_URL, NATS_URL, CONTROL_PLANE_ADDRESS with CONTROL_PLANE_TOKEN, CONTROL_TLS_*, SPOOL_DIR. It changes nothing.\nThe exit code is 1 if a check failed, else 0, warnings included.\n\nExamples:\n  WEIGHBRIDGE_URL=https://gateway.example.com weighbridge doctor\n  DATABASE_URL=postgresql://weighbridge@db.internal/weighbridge NATS_URL=nats://nats.internal weighbridge doctor --json',
    )
    .action(async (options: { live?: boolean }, command: Command) => {
      const findings = [
        ...(await checkService(cli, command, options.live ?? false)),
        ...(await deploymentChecks(cli.env, cli.now)),
      ];
      const { json }: GlobalOptions = command.optsWithGlobals();
      if (json) cli.out(JSON.stringify(findings.map(toJson), null, 2));
      else for (const finding of findings) for (const line of lines(finding)) cli.out(line);
      const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
      if (count('fail') > 0) throw new Error(`${count('fail')} of ${findings.length} checks failed.`);
    });
}

async function checkService(cli: Cli, command: Command, live: boolean): Promise<Finding[]> {
  let session: Session;
  try {
    session = await openSession(cli, command);
  } catch (error) {
    // Without a key, the other parts can still be checked.
    const hasOtherChecks = DEPLOYMENT_SETTINGS.some((name) => cli.env[name]);
    if (error instanceof UsageError && hasOtherChecks) return [skipped('service', error.message)];
    throw error;
  }
  const { findings, canContinue } = await serviceChecks(session);
  return canContinue ? [...findings, ...(await operatorChecks(session, { live }))] : findings;
}

const toJson = ({
  check,
  level,
  detail,
  advice = null,
}: Omit<Finding, 'advice'> & { advice?: string | null }) => ({
  check,
  level,
  detail,
  advice,
});

function lines({ check, level, detail, advice }: Finding): string[] {
  return [printable(`${SIGNS[level]} ${check}: ${detail}`), ...(advice ? [printable(`    ${advice}`)] : [])];
}
