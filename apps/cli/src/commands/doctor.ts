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
    .description('look at a deployment, part by part, and say what is wrong and what to do')
    .option('--live', "also try each connector's credential at its vendor; nothing is generated or billed")
    .addHelpText(
      'after',
      '\nThe service is looked at by its API. What lies behind it is, where the settings of the apps are given:\nDATABASE_URL, NATS_URL, CONTROL_PLANE_ADDRESS with CONTROL_PLANE_TOKEN, CONTROL_TLS_*, SPOOL_DIR. Nothing is changed.\nThe exit code is 1 where a check failed; warnings leave it 0.\n\nExamples:\n  WEIGHBRIDGE_URL=https://gateway.example.com weighbridge doctor\n  DATABASE_URL=postgresql://weighbridge@db.internal/weighbridge NATS_URL=nats://nats.internal weighbridge doctor --json',
    )
    .action(async (options: { live?: boolean }, command: Command) => {
      const findings = [
        ...(await examineService(cli, command, options.live ?? false)),
        ...(await deploymentChecks(cli.env, cli.now)),
      ];
      const { json }: GlobalOptions = command.optsWithGlobals();
      if (json) cli.out(JSON.stringify(findings.map(toJson), null, 2));
      else for (const finding of findings) for (const line of lines(finding)) cli.out(line);
      const count = (level: Level) => findings.filter((finding) => finding.level === level).length;
      if (count('fail') > 0) throw new Error(`${count('fail')} of ${findings.length} checks failed.`);
    });
}

async function examineService(cli: Cli, command: Command, live: boolean): Promise<Finding[]> {
  let session: Session;
  try {
    session = await openSession(cli, command);
  } catch (error) {
    // Where there is something else to look at, a missing key does not keep from that.
    const hasMore = DEPLOYMENT_SETTINGS.some((name) => cli.env[name]);
    if (error instanceof UsageError && hasMore) return [skipped('service', error.message)];
    throw error;
  }
  const { findings, goesOn } = await serviceChecks(session);
  return goesOn ? [...findings, ...(await operatorChecks(session, { live }))] : findings;
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
