import { execFile } from 'node:child_process';
import { access, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

/** The tested release of Kubernetes. 1.34.0 and 1.34.1 warn of each headless Service (kubernetes/kubernetes#134040). */
const KUBERNETES = 'v1.34.3';
const CACHE = join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'weighbridge', 'cluster');
const BUILD_TIMEOUT_MS = 30 * 60_000;

export interface Binaries {
  readonly etcd: string;
  readonly apiServer: string;
}

/** Made once, minutes of work, and kept in `~/.cache/weighbridge/cluster`. */
export async function findBinaries(): Promise<Binaries> {
  await mkdir(CACHE, { recursive: true });
  return { etcd: await findEtcd(), apiServer: await findApiServer() };
}

/** That of the PATH, or Debian's package, unpacked and not installed. */
async function findEtcd(): Promise<string> {
  if (await succeeds('etcd', ['--version'])) return 'etcd';
  const kept = join(CACHE, 'etcd', 'usr', 'bin', 'etcd');
  if (await exists(kept)) return kept;
  await making('etcd', async (folder) => {
    const fetched = join(folder, 'fetched');
    await mkdir(fetched);
    await run('apt-get', ['download', 'etcd-server'], fetched);
    const [file = ''] = await readdir(fetched);
    await run('dpkg-deb', ['--extract', join(fetched, file), folder], folder);
    await rm(fetched, { recursive: true });
  }).catch((error) => fail('etcd', 'Install it, or run this on Debian.', error));
  return kept;
}

/** Built from its Go modules: no package has it. */
async function findApiServer(): Promise<string> {
  const name = `kube-apiserver-${KUBERNETES}`;
  const kept = join(CACHE, name, 'kube-apiserver');
  if (await exists(kept)) return kept;
  await making(name, buildApiServer).catch((error) =>
    fail('kube-apiserver', 'Install Go 1.24 or later, with access to its modules.', error),
  );
  return kept;
}

async function buildApiServer(folder: string): Promise<void> {
  const command = 'k8s.io/kubernetes/cmd/kube-apiserver';
  await writeFile(join(folder, 'go.mod'), 'module cluster\n');
  const described = await run('go', ['mod', 'download', '-json', `k8s.io/kubernetes@${KUBERNETES}`], folder);
  const { GoMod } = JSON.parse(described) as { GoMod: string };
  await writeFile(join(folder, 'go.mod'), moduleThatRequires(await readFile(GoMod, 'utf8')));
  await writeFile(join(folder, 'tools.go'), `//go:build tools\n\npackage tools\n\nimport _ "${command}"\n`);
  await run('go', ['mod', 'tidy'], folder);
  const version = 'k8s.io/component-base/version';
  const [major, minor] = KUBERNETES.slice(1).split('.');
  const stamps = [`gitVersion=${KUBERNETES}`, `gitMajor=${major}`, `gitMinor=${minor}`];
  const linked = `-s -w ${stamps.map((stamp) => `-X ${version}.${stamp}`).join(' ')}`;
  await run('go', ['build', '-trimpath', '-ldflags', linked, '-o', 'kube-apiserver', command], folder);
}

/** Kubernetes requires the modules of its own repository at v0.0.0; their releases have the same minor version. */
function moduleThatRequires(ofKubernetes: string): string {
  const go = /^go (\S+)/m.exec(ofKubernetes)?.[1];
  const staging = new Set(
    [...ofKubernetes.matchAll(/^\s*(k8s\.io\/\S+) v0\.0\.0$/gm)].map(([, name]) => name),
  );
  const release = KUBERNETES.replace(/^v1\./, 'v0.');
  const replaced = [...staging].map((name) => `\t${name} => ${name} ${release}`);
  return `module cluster\n\ngo ${go}\n\nrequire k8s.io/kubernetes ${KUBERNETES}\n\nreplace (\n${replaced.join('\n')}\n)\n`;
}

/** Makes a folder of the cache whole or not at all. */
async function making(name: string, make: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(CACHE, 'making-'));
  try {
    await make(folder);
    await rename(folder, join(CACHE, name));
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  const env = { ...process.env, GOFLAGS: '-mod=mod -buildvcs=false', CGO_ENABLED: '0' };
  const options = { cwd, env, timeout: BUILD_TIMEOUT_MS, maxBuffer: 64 * 2 ** 20 };
  return (await promisify(execFile)(command, args, options)).stdout;
}

const succeeds = (command: string, args: readonly string[]): Promise<boolean> =>
  promisify(execFile)(command, args).then(
    () => true,
    () => false,
  );

const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );

function fail(what: string, advice: string, cause: unknown): never {
  throw new Error(`There is no ${what}. ${advice}`, { cause });
}
