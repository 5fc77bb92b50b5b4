import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

/** Verifies that the checks of `pnpm check` fail on a violation. */

const root = fileURLToPath(new URL('../../../', import.meta.url));
const bin = (name: string) => join(root, 'node_modules/.bin', name);

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-checks-'));
});
afterEach(() => rm(folder, { recursive: true }));

async function plant(files: Record<string, string>): Promise<void> {
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(folder, path)), { recursive: true });
    await writeFile(join(folder, path), content);
  }
}

/** Runs a command in the planted folder. Returns its output and whether it succeeded. */
async function run(
  command: string,
  args: readonly string[],
  cwd = folder,
): Promise<{ ok: boolean; output: string }> {
  const ran = promisify(execFile)(command, args, { cwd }).then(
    ({ stdout, stderr }) => ({ ok: true, output: stdout + stderr }),
    ({ stdout, stderr }) => ({ ok: false, output: `${stdout}${stderr}` }),
  );
  return await ran;
}

describe('dependency-cruiser', () => {
  const cruise = (cwd: string, files = '{apps,packages}/*/{src,test}/**/*.ts') =>
    run(bin('depcruise'), ['--config', join(root, '.dependency-cruiser.cjs'), files], cwd);
  const importing = (path: string) => `export * from '${path}';\n`;

  /** The table of docs/architecture.md, from the top down. */
  const dataPlaneFolders = [
    ...readFileSync(join(root, 'docs/architecture.md'), 'utf8').matchAll(/^\| `(\w+)\/` +\|/gm),
  ].map(([, folder = '']) => folder);

  /** One violation per rule, all in one tree, so that one run sees them all. */
  const violations: Record<string, [file: string, content: string]> = {
    'app-not-to-app': ['apps/data-plane/src/a.ts', importing('../../metering/src/target.ts')],
    'bench-only-to-what-is-measured': [
      'packages/bench/src/l.ts',
      importing('../../../apps/metering/src/target.ts'),
    ],
    'package-not-to-app': ['packages/bus/src/b.ts', importing('../../../apps/metering/src/target.ts')],
    'cli-by-public-entry': ['apps/cli/src/c.ts', importing('../../metering/src/target.ts')],
    'domain-and-errors-import-nothing-of-ours': [
      'packages/domain/src/d.ts',
      importing('../../bus/src/target.ts'),
    ],
    'dialects-imports-domain-only': ['packages/dialects/src/m.ts', importing('../../bus/src/target.ts')],
    'budget-imports-shapes-only': ['packages/budget/src/n.ts', importing('../../ledger/src/target.ts')],
    'budget-does-no-io': ['packages/budget/src/holder/o.ts', importing('node:net')],
    'state-imports-shapes-only': ['packages/state/src/p.ts', importing('../../bus/src/target.ts')],
    'state-uses-no-client-or-server': ['packages/state/src/q.ts', importing('kysely')],
    'usage-without-sql-or-servers': [
      'packages/usage/src/spool/n.ts',
      importing('../../../ledger/src/target.ts'),
    ],
    'usage-wire-does-no-io': ['packages/usage/src/event/o.ts', importing('../spool/target.ts')],
    'domain-does-no-io': ['packages/domain/src/e.ts', importing('node:fs')],
    'repository-not-to-service-or-routes': [
      'apps/x/src/features/a/f.repository.ts',
      importing('./target.service.ts'),
    ],
    'service-not-to-routes': ['apps/x/src/features/a/g.service.ts', importing('./target.routes.ts')],
    'routes-not-to-repository': ['apps/x/src/features/a/h.routes.ts', importing('./target.repository.ts')],
    'feature-only-through-its-service': [
      'apps/x/src/features/b/i.service.ts',
      importing('../a/target.repository.ts'),
    ],
    ...Object.fromEntries(
      dataPlaneFolders
        .slice(1)
        .map((folder) => [
          `data-plane-${folder}-imports-below`,
          [`apps/data-plane/src/${folder}/r.ts`, importing(`../${dataPlaneFolders[0]}/target.ts`)],
        ]),
    ),
    'proxy-loads-no-framework': [
      'apps/data-plane/src/t.ts',
      importing('../../../packages/runtime/src/httpApp.ts'),
    ],
    'product-starts-no-cloud': ['packages/mock-vendor/src/s.ts', importing('./azure/target.ts')],
    'no-circular': ['packages/bus/src/j.ts', importing('./j.ts')],
    'no-test-in-product': ['apps/x/src/k.ts', importing('../../../packages/testing/src/target.ts')],
  };
  const targets = [
    `apps/data-plane/src/${dataPlaneFolders[0]}/target.ts`,
    'apps/metering/src/target.ts',
    'apps/x/src/features/a/target.repository.ts',
    'apps/x/src/features/a/target.routes.ts',
    'apps/x/src/features/a/target.service.ts',
    'packages/bus/src/target.ts',
    'packages/ledger/src/target.ts',
    'packages/mock-vendor/src/azure/target.ts',
    'packages/usage/src/spool/target.ts',
    'packages/testing/src/target.ts',
  ];

  it('fails on a planted violation of each of its rules', async () => {
    await plant(Object.fromEntries(targets.map((file) => [file, 'export const x = 1;\n'])));
    await plant({ 'packages/runtime/src/httpApp.ts': importing('fastify') });
    await plant(Object.fromEntries(Object.values(violations)));
    const { ok, output } = await cruise(folder);
    expect(ok).toBe(false);
    for (const [rule, [file]] of Object.entries(violations))
      expect(output).toContain(`error ${rule}: ${file}`);
  });

  it('has a planted violation here for each of its rules', async () => {
    const { default: config } = await import(join(root, '.dependency-cruiser.cjs'));
    const rules = config.forbidden.map(({ name }: { name: string }) => name);
    expect(Object.keys(violations).sort()).toEqual(rules.sort());
  });

  it('orders every folder of the data plane', async () => {
    const entries = await readdir(join(root, 'apps/data-plane/src'), { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    expect(dataPlaneFolders.toSorted()).toEqual(folders.toSorted());
  });

  it('finds no database client and no server among the dependencies of the rules of budgets', async () => {
    const manifest = JSON.parse(await readFile(join(root, 'packages/budget/package.json'), 'utf8'));
    expect(Object.keys(manifest.dependencies)).toEqual([
      '@bufbuild/protobuf',
      '@weighbridge/contracts',
      '@weighbridge/domain',
      '@weighbridge/errors',
    ]);
  });

  it('reads the modules of this repository, since a run without modules passes every rule', async () => {
    // Two packages suffice here; `pnpm check:boundaries` reads all.
    const { ok, output } = await cruise(root, 'packages/{bus,domain}/{src,test}/**/*.ts');
    expect(ok).toBe(true);
    expect(Number(/\((\d+) modules/.exec(output)?.[1])).toBeGreaterThan(40);
  });
});

describe('the check of rooms', () => {
  const checkRooms = (cwd: string) =>
    run(process.execPath, [join(root, 'packages/testing/roomCycles.mjs')], cwd);

  it('fails on folders that import each other in a cycle, and names the files', async () => {
    await plant({
      'apps/x/src/main.ts': "import './a/one.ts';\n",
      'apps/x/src/a/one.ts': "import { type Two } from '../b/two.ts';\n",
      'apps/x/src/b/two.ts': "export type { Three } from '../c/deep/three.ts';\n",
      'apps/x/src/c/deep/three.ts': "export const four = await import('../../a/four.ts');\n",
      'apps/x/src/a/four.ts': '',
    });
    const { ok, output } = await checkRooms(folder);
    expect(ok).toBe(false);
    expect(output).toContain('error no-room-cycle: apps/x/src/a');
    for (const shown of ['a/one.ts → b/two.ts', 'b/two.ts → c/deep/three.ts', 'c/deep/three.ts → a/four.ts'])
      expect(output).toContain(shown);
  });

  it('allows rooms to import others in one direction, and tests to import anything', async () => {
    await plant({
      'apps/x/src/a/one.ts': "import '../b/two.ts';\n",
      'apps/x/src/b/two.ts': "import './deep/three.ts';\n",
      'apps/x/src/b/deep/three.ts': "import '../two.ts';\n",
      'apps/x/src/b/two.test.ts': "import '../a/one.ts';\n",
    });
    expect(await checkRooms(folder)).toEqual({ ok: true, output: '2 rooms, 0 in a cycle\n' });
  });

  it('finds the rooms of this repository', async () => {
    const { ok, output } = await checkRooms(root);
    expect(ok).toBe(true);
    expect(Number(/^(\d+) rooms/.exec(output)?.[1])).toBeGreaterThan(30);
  });
});

describe('buf', () => {
  beforeEach(() => cp(join(root, 'proto'), join(folder, 'proto'), { recursive: true }));

  async function edit(change: (text: string) => string): Promise<void> {
    const file = join(folder, 'proto/weighbridge/v1/usage.proto');
    await writeFile(file, change(await readFile(file, 'utf8')));
  }
  const breaking = () =>
    run(bin('buf'), ['breaking', 'proto', '--against', join(root, 'proto/baseline.binpb')]);

  it('allows a new field, and rejects a changed type', async () => {
    await edit((text) =>
      text.replace('string event_id = 1;', 'string event_id = 1;\n  string further = 999;'),
    );
    expect(await breaking()).toMatchObject({ ok: true });
    await edit((text) => text.replace('string event_id = 1;', 'int64 event_id = 1;'));
    expect(await breaking()).toMatchObject({ ok: false, output: expect.stringContaining('event_id') });
  });

  it('rejects a name that breaks the naming rules', async () => {
    await edit((text) => text.replace('string event_id = 1;', 'string EventId = 1;'));
    expect(await run(bin('buf'), ['lint', 'proto'])).toMatchObject({ ok: false });
  });
});

describe('biome', () => {
  it('allows only main.ts to read the environment', async () => {
    await plant({
      'apps/x/src/main.ts': 'export const a = process.env.A;\n',
      'apps/x/src/b.ts': 'export const b = process.env.B;\n',
    });
    await cp(join(root, '.biome.json'), join(folder, '.biome.json'));
    const args = ['lint', '--vcs-enabled=false', '.'];
    const { ok, output } = await run(bin('biome'), args);
    expect(ok).toBe(false);
    expect(output).toMatch(/b\.ts.*noProcessEnv/);
    expect(output).not.toMatch(/main\.ts/);
  });
});
