import { type ExecFileOptions, execFile } from 'node:child_process';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** Runs a command of Docker or podman, and returns its standard output. Rejects with its output if it fails. */
export type Engine = (args: readonly string[], options?: ExecFileOptions) => Promise<string>;

const MAX_LIMIT = 32_768;
const TIMEOUT_MS = 120_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** A container engine that answers: that of CONTAINER_ENGINE, or Docker, or podman. Throws with what to install. */
export async function openEngine(): Promise<Engine> {
  const named = process.env.CONTAINER_ENGINE;
  for (const command of named ? [named] : ['docker', 'podman']) {
    const engine = engineOf(command);
    const answered = await engine(['info']).then(
      () => true,
      () => false,
    );
    if (answered) return engine;
  }
  throw new Error(
    'No container engine answers. Install Docker, or as root on Debian: apt-get install --no-install-recommends podman buildah runc',
  );
}

function engineOf(command: string): Engine {
  const env = command === 'podman' ? { ...process.env, CONTAINERS_CONF: podmanConfiguration() } : process.env;
  return async (args, options = {}) => {
    const { stdout } = await promisify(execFile)(command, [...args], {
      env,
      timeout: TIMEOUT_MS,
      maxBuffer: MAX_OUTPUT_BYTES,
      ...options,
    }).catch((error: { stdout?: string; stderr?: string; message: string }) => {
      throw new Error(`${command} ${args.join(' ')}\n${error.message}\n${error.stdout}\n${error.stderr}`);
    });
    return String(stdout).trim();
  };
}

/**
 * podman asks for more files and processes than a confined root may have, and its preferred runtime refuses machines with the
 * first and the second version of cgroups at once.
 */
function podmanConfiguration(): string {
  const path = join(mkdtempSync(join(tmpdir(), 'weighbridge-podman-')), 'containers.conf');
  const ulimits = `default_ulimits = ["nofile=${limit('open_files')}", "nproc=${limit('max_user_processes')}"]`;
  const engine = 'runtime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"';
  writeFileSync(path, `[containers]\n${ulimits}\n[engine]\n${engine}\n`);
  return path;
}

/** This process's own hard limit, twice, as the engine's configuration has it. */
function limit(name: 'open_files' | 'max_user_processes'): string {
  const report = process.report?.getReport() as {
    userLimits?: Record<string, { hard: number | 'unlimited' }>;
  };
  const hard = Math.min(Number(report.userLimits?.[name]?.hard) || MAX_LIMIT, MAX_LIMIT);
  return `${hard}:${hard}`;
}
