import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parseYaml, REPOSITORY, read } from './repository.ts';

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly jobs: Readonly<
    Record<
      string,
      {
        readonly permissions?: Readonly<Record<string, string>>;
        readonly 'timeout-minutes'?: number;
        readonly 'runs-on': string;
        readonly needs?: string;
        readonly strategy?: { readonly matrix: Readonly<Record<string, readonly string[]>> };
        readonly environment?: string;
        readonly steps: readonly Step[];
      }
    >
  >;
}

const WORKFLOWS = ['audit.yml', 'ci.yml', 'nightly.yml', 'release.yml'];

/** The only jobs with write permissions, to publish and to sign as the workflow. */
const WRITERS: Readonly<Record<string, readonly string[]>> = {
  'release.yml image': ['packages', 'id-token', 'attestations'],
  'release.yml chart': ['packages', 'id-token', 'attestations'],
  'release.yml notes': ['contents'],
};

/** Returns a message per rule that a workflow violates. */
function ruleViolations(file: string, { on, permissions, jobs }: Workflow): string[] {
  const found: string[] = [];
  if ('pull_request_target' in on) found.push('runs with its permissions for pull requests of forks');
  if (!permissions || Object.entries(permissions).some((one) => one.join() !== 'contents,read')) {
    found.push('its jobs have more than read permissions');
  }
  for (const [name, job] of Object.entries(jobs)) {
    const written = Object.entries(job.permissions ?? {}).filter(([, right]) => right !== 'read');
    const tooMuch = written.filter(([what]) => !WRITERS[`${file} ${name}`]?.includes(what));
    found.push(...tooMuch.map(([what]) => `${name} may write ${what}`));
    if (written.length > 0 && job.environment !== 'release') found.push(`${name} publishes without approval`);
    if (!job['timeout-minutes']) found.push(`${name} has no time-out`);
    if (!/-\d/.test(job['runs-on'])) found.push(`${name} runs on an unpinned runner image`);
    for (const { uses = '', run = '', with: options } of job.steps) {
      // A tag can be moved, a commit can't.
      if (uses !== '' && !/@[0-9a-f]{40}$/.test(uses)) found.push(`${uses} is not pinned`);
      if (uses.startsWith('actions/checkout@') && options?.['persist-credentials'] !== false) {
        found.push(`${name} leaves its token in the checkout`);
      }
      if (run.includes('${{')) found.push(`${name} interpolates a value into a script`);
      if (/\b(?:npx|npm (?:i|install|exec))\b/.test(run))
        found.push(`${name} runs a package without its hash`);
    }
  }
  return found;
}

const workflow = async (file: string) => parseYaml(await read(`.github/workflows/${file}`))[0] as Workflow;

const textOf = ({ jobs }: Workflow, job: string) =>
  (jobs[job]?.steps ?? []).map((step) => JSON.stringify(step)).join('\n');

describe('the workflows', () => {
  it('follow the rules', async () => {
    const files = await readdir(join(REPOSITORY, '.github/workflows'));
    expect(files.sort()).toEqual(WORKFLOWS);
    for (const file of files) {
      expect(ruleViolations(file, await workflow(file)), file).toEqual([]);
      const unversioned = (await read(`.github/workflows/${file}`)).match(
        /uses: .*@[0-9a-f]{40}(?! # v\d+\.\d+\.\d+$)/gm,
      );
      expect([file, unversioned]).toEqual([file, null]);
    }
  });

  it('are reported for each rule that they violate', () => {
    const steps = [
      { uses: 'actions/checkout@v4.2.2' },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: as a workflow writes it.
      { run: 'echo ${{ github.event.pull_request.title }}' },
      { run: 'npx --yes pnpm@10.34.9 install --frozen-lockfile' },
    ];
    const bad = {
      on: { pull_request_target: {} },
      permissions: { contents: 'write' },
      jobs: { build: { 'runs-on': 'ubuntu-latest', permissions: { packages: 'write' }, steps } },
    };
    expect(ruleViolations('ci.yml', bad)).toEqual([
      'runs with its permissions for pull requests of forks',
      'its jobs have more than read permissions',
      'build may write packages',
      'build publishes without approval',
      'build has no time-out',
      'build runs on an unpinned runner image',
      'actions/checkout@v4.2.2 is not pinned',
      'build leaves its token in the checkout',
      'build interpolates a value into a script',
      'build runs a package without its hash',
    ]);
    expect(ruleViolations('ci.yml', { on: {}, jobs: {} })).toEqual([
      'its jobs have more than read permissions',
    ]);
  });

  it('install only from the lockfile, run the tests, and try the image', async () => {
    const ci = await workflow('ci.yml');
    expect(textOf(ci, 'test')).toMatch(
      /install --frozen-lockfile[\s\S]*install .*prometheus[\s\S]*\.ci\/run/,
    );
    expect(textOf(ci, 'image')).toMatch(/docker build[\s\S]*--read-only[\s\S]*compose\.yaml up[\s\S]*readyz/);
  });

  it('run every command for tests that the package has, each shard and each form of faults', async () => {
    const nightly = await workflow('nightly.yml');
    expect(nightly.on).toHaveProperty('schedule');
    const ran = [nightly, await workflow('ci.yml')].flatMap((one) =>
      Object.keys(one.jobs).map((job) => textOf(one, job)),
    );
    const { scripts } = JSON.parse(await read('package.json'));
    // `test:unit` is a part of `test`, which `.ci/run` runs.
    const commands = Object.keys(scripts).filter((name) => name.startsWith('test:') && name !== 'test:unit');
    expect(commands.length).toBeGreaterThan(4);
    const missing = commands.filter((name) => !ran.some((text) => new RegExp(`\\b${name}\\b`).test(text)));
    expect(missing).toEqual([]);
    const { shard = [], form } = Object.assign(
      {},
      ...Object.values(nightly.jobs).map(({ strategy }) => strategy?.matrix),
    ) as Record<string, string[]>;
    expect(shard).toEqual(shard.map((_, at) => `${at + 1}/${shard.length}`));
    const forms = /const FORMS = \[([^\]]+)\]/.exec(await read('apps/cli/test/faults/run.mjs'))?.[1] ?? '';
    expect(form).toEqual([...forms.matchAll(/'(\w+)'/g)].map(([, name]) => name));
  });

  it('install only packages of the lockfile, each by its hash and from the registry', async () => {
    const [lockfile] = parseYaml(await read('pnpm-lock.yaml')) as [
      { packages: Record<string, { resolution: object }> },
    ];
    const packages = Object.entries(lockfile.packages);
    expect(packages.length).toBeGreaterThan(200);
    const unsure = packages.filter(
      ([, { resolution }]) =>
        !/^sha512-[A-Za-z0-9+/]{86}==$/.test(String(Object.values(resolution))) ||
        Object.keys(resolution).join() !== 'integrity',
    );
    expect(unsure.map(([name]) => name)).toEqual([]);
    for (const file of ['deploy/Dockerfile', ...WORKFLOWS.map((name) => `.github/workflows/${name}`)]) {
      const installs = (await read(file)).match(/^.*pnpm\S* (?:install|fetch|i|add)\b.*$/gm) ?? [];
      const loose = installs.filter((line) => !/--frozen-lockfile|pnpm\S* fetch/.test(line));
      expect([file, ...loose]).toEqual([file]);
    }
  });

  it('resolve no package that was published in the last three days', async () => {
    const [workspace] = parseYaml(await read('pnpm-workspace.yaml')) as [{ minimumReleaseAge: number }];
    expect(workspace.minimumReleaseAge).toBeGreaterThanOrEqual(3 * 24 * 60);
    expect(workspace).not.toHaveProperty('minimumReleaseAgeExclude');
  });

  it('audit the production dependencies every day', async () => {
    const audit = await workflow('audit.yml');
    expect(audit.on).toHaveProperty('schedule');
    expect(textOf(audit, 'audit')).toContain('audit --prod');
  });

  it('release only tested code, with a bill of materials, provenance and signatures', async () => {
    const release = await workflow('release.yml');
    expect([release.jobs.image?.needs, release.jobs.chart?.needs]).toEqual(['verify', 'image']);
    expect(textOf(release, 'verify')).toContain('.ci/run');
    // A tag can name any commit.
    expect(textOf(release, 'verify')).toMatch(
      /"fetch-depth":0[\s\S]*merge-base --is-ancestor \\"\$GITHUB_SHA\\" origin\/main[\s\S]*gh run list --workflow ci\.yml --branch main --event push --commit[\s\S]*--status success/,
    );
    const image = textOf(release, 'image');
    // The apps, and everything in one container.
    const builds = (release.jobs.image?.steps ?? []).filter(({ uses }) =>
      uses?.includes('/build-push-action@'),
    );
    expect(builds.map((build) => build.with?.target)).toEqual([undefined, 'standalone']);
    for (const build of builds) {
      expect(build.with).toMatchObject({ push: true, sbom: true, provenance: 'mode=max' });
      expect(build.with?.platforms).toBe('linux/amd64,linux/arm64');
    }
    // A tag can be moved, so the pushed digests are signed.
    expect(image).toMatch(/cosign sign --yes --recursive \\"\$IMAGE\\" \\"\$STANDALONE\\"/);
    for (const id of ['build', 'standalone']) {
      expect(image).toContain(`@\${{ steps.${id}.outputs.digest }}`);
      expect(image).toContain(`"subject-digest":"\${{ steps.${id}.outputs.digest }}"`);
    }
    expect(textOf(release, 'chart')).toMatch(/helm push[\s\S]*cosign sign --yes[\s\S]*@\$digest/);
    for (const job of ['image', 'chart']) {
      expect(textOf(release, job)).toMatch(
        /attest-build-provenance@[\s\S]*outputs\.digest[\s\S]*"push-to-registry":true/,
      );
    }
    // The changelog is checked before anything is published, and published last.
    expect(textOf(release, 'verify')).toContain('.ci/release-notes');
    expect(release.jobs.notes?.needs).toBe('chart');
    expect(textOf(release, 'notes')).toMatch(/release-notes[\s\S]*gh release create[\s\S]*--verify-tag/);
    // The repository's owner sets the registry.
    const text = await read('.github/workflows/release.yml');
    expect(
      text.match(/^ +registry: (?!\$\{\{ vars\.REGISTRY \}\})\S+|[\w-]+\.(?:io|dev|com)\//gm),
    ).toBeNull();
  });
});

describe('versions', () => {
  it('of pnpm are the same everywhere', async () => {
    const { packageManager } = JSON.parse(await read('package.json'));
    const [name, hash] = packageManager.split('+sha512.');
    expect(hash).toMatch(/^[0-9a-f]{128}$/);
    // CI and the image check what the registry sends.
    expect(await read('deploy/Dockerfile')).toContain(`echo "${hash}  /tmp/pnpm-`);
    expect(await read('.ci/install-pnpm')).toMatch(/packageManager[\s\S]*sha512sum --check/);
    for (const workflow of WORKFLOWS) {
      expect(await read(`.github/workflows/${workflow}`)).toMatch(/\.ci\/install-pnpm\n +- run: pnpm /);
    }
    const files = ['.ci/run', 'README.md', 'deploy/Dockerfile'];
    for (const file of [...files, ...WORKFLOWS.map((name) => `.github/workflows/${name}`)]) {
      const named = (await read(file)).match(/pnpm@[\d.]+\d/g) ?? [];
      expect([file, ...new Set(named)]).toEqual([file, ...(named.length > 0 ? [name] : [])]);
    }
  });

  it('of the chart and the image equal that of the code', async () => {
    const { version } = JSON.parse(await read('package.json'));
    const [chart] = parseYaml(await read('deploy/helm/weighbridge/Chart.yaml'));
    expect(chart).toMatchObject({ version, appVersion: version });
    // The command line and the apps say the version of their own package.
    for (const folder of ['apps', 'packages']) {
      for (const name of await readdir(join(REPOSITORY, folder))) {
        const file = `${folder}/${name}/package.json`;
        expect([file, JSON.parse(await read(file)).version]).toEqual([file, version]);
      }
    }
  });
});
