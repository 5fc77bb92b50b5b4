import { setTimeout as sleep } from 'node:timers/promises';
import type { Env } from '../session/settings.ts';
import { type Finding, fail, skipped, why } from './finding.ts';

const TLS_SETTINGS = ['CONTROL_TLS_CERTIFICATE_FILE', 'CONTROL_TLS_KEY_FILE', 'CONTROL_TLS_CA_FILE'];

/** Settings of the apps that allow more checks than those of the API. */
export const DEPLOYMENT_SETTINGS = [
  'DATABASE_URL',
  'NATS_URL',
  'CONTROL_PLANE_ADDRESS',
  'SPOOL_DIR',
  ...TLS_SETTINGS,
];

interface Check {
  readonly check: string;
  /** Any of these settings enables it. */
  readonly settings: readonly string[];
  run(env: Env, now: () => Date): Promise<Finding[]>;
}

// Each check loads its imports itself, so that `doctor` without settings starts as fast as any command.
const CHECKS: readonly Check[] = [
  {
    check: 'database',
    settings: ['DATABASE_URL'],
    run: async ({ DATABASE_URL = '' }, now) => {
      const { databaseChecks } = await import('./databaseChecks.ts');
      return await databaseChecks(DATABASE_URL, now);
    },
  },
  {
    check: 'nats',
    settings: ['NATS_URL'],
    run: async (env, now) => {
      const { expectedNats } = await import('@weighbridge/data-plane');
      const { natsChecks } = await import('./natsChecks.ts');
      return await natsChecks(expectedNats(env), now);
    },
  },
  {
    check: 'certificates',
    settings: TLS_SETTINGS,
    run: async (env, now) => {
      const { controlAddress } = await import('@weighbridge/data-plane');
      const { certificateChecks } = await import('./certificateChecks.ts');
      const { tls } = controlAddress(env);
      return tls ? await certificateChecks(tls, now) : [];
    },
  },
  {
    check: 'control plane',
    settings: ['CONTROL_PLANE_ADDRESS'],
    run: async (env, now) => {
      const { pingControlPlane, controlAddress } = await import('@weighbridge/data-plane');
      const { controlPlaneChecks } = await import('./controlPlaneChecks.ts');
      return await controlPlaneChecks({ ...controlAddress(env), ping: () => pingControlPlane(env) }, now);
    },
  },
  {
    check: 'spool',
    settings: ['SPOOL_DIR'],
    run: async (env) => {
      const { checkSpools, spoolSettings } = await import('@weighbridge/data-plane');
      const { spoolChecks, spoolDiskCheck } = await import('./spoolChecks.ts');
      const { dir, maxBytes } = spoolSettings(env);
      const disk = await spoolDiskCheck(dir, maxBytes);
      return disk.level === 'fail' ? [disk] : [...spoolChecks(await checkSpools(dir), dir, maxBytes), disk];
    },
  },
];

/** Of a check as a whole: a server that stops answering in the middle of one is waited for by some clients without end. */
const TIMEOUT_MS = 30_000;

/** Rejects if the findings take too long. What is still under way is left. */
export async function inTime(findings: Promise<Finding[]>, timeoutMs = TIMEOUT_MS): Promise<Finding[]> {
  const over = new AbortController();
  const late = sleep(timeoutMs, undefined, { signal: over.signal }).then(() => {
    throw new Error(`no answer within ${timeoutMs / 1_000} s`);
  });
  late.catch(() => {});
  try {
    return await Promise.race([findings, late]);
  } finally {
    over.abort();
  }
}

/** Checks what is behind the API, as far as the settings of the apps are given. */
export async function deploymentChecks(env: Env, now: () => Date): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { check, settings, run } of CHECKS) {
    if (!settings.some((name) => env[name])) {
      findings.push(skipped(check, `not checked: set ${settings.join(', ')} as for the apps`));
      continue;
    }
    try {
      findings.push(...(await inTime(run(env, now))));
    } catch (error) {
      findings.push(
        fail(
          check,
          why(error),
          'Correct the setting, or look why nothing answers there; docs/configuration.md lists them.',
        ),
      );
    }
  }
  return findings;
}
