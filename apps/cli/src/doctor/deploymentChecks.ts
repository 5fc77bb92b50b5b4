import type { Env } from '../session/settings.ts';
import { type Finding, fail, skipped, why } from './finding.ts';

const TLS_SETTINGS = ['CONTROL_TLS_CERTIFICATE_FILE', 'CONTROL_TLS_KEY_FILE', 'CONTROL_TLS_CA_FILE'];

/** The settings of the apps by which there is more to look at than the service itself. */
export const DEPLOYMENT_SETTINGS = [
  'DATABASE_URL',
  'NATS_URL',
  'CONTROL_PLANE_ADDRESS',
  'SPOOL_DIR',
  ...TLS_SETTINGS,
];

interface Part {
  readonly check: string;
  /** Any of these settings has it looked at. */
  readonly settings: readonly string[];
  run(env: Env, now: () => Date): Promise<Finding[]>;
}

// Each loads what it needs where it is needed: a doctor without settings starts as quickly as any command.
const PARTS: readonly Part[] = [
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
      const { controlLineChecks } = await import('./controlPlaneChecks.ts');
      return await controlLineChecks({ ...controlAddress(env), ask: () => pingControlPlane(env) }, now);
    },
  },
  {
    check: 'spool',
    settings: ['SPOOL_DIR'],
    run: async (env) => {
      const { checkSpools, spoolSettings } = await import('@weighbridge/data-plane');
      const { spoolChecks } = await import('./spoolChecks.ts');
      const { dir, maxBytes } = spoolSettings(env);
      return spoolChecks(await checkSpools(dir), dir, maxBytes);
    },
  },
];

/** What lies behind the service, as far as the settings of the apps lead there. */
export async function deploymentChecks(env: Env, now: () => Date): Promise<Finding[]> {
  const findings: Finding[] = [];
  for (const { check, settings, run } of PARTS) {
    if (!settings.some((name) => env[name])) {
      findings.push(skipped(check, `set ${settings.join(', ')} as the apps have it, to have it looked at`));
      continue;
    }
    try {
      findings.push(...(await run(env, now)));
    } catch (error) {
      findings.push(fail(check, why(error), 'Correct that; docs/configuration.md lists the settings.'));
    }
  }
  return findings;
}
