import { ArchiveSettings, MetricsSettings } from '@weighbridge/runtime';
import { describe, expect, it } from 'vitest';
import { stages } from './dockerfile.ts';
import { parseYaml, read } from './repository.ts';

interface Service {
  readonly image: string;
  readonly command?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly read_only?: boolean;
  readonly cap_drop?: readonly string[];
  readonly user?: string;
  readonly ports?: readonly string[];
  readonly depends_on?: Readonly<Record<string, object>>;
  readonly volumes?: readonly string[];
  readonly networks?: readonly string[];
  readonly mem_limit?: string;
  readonly healthcheck?: { readonly test: readonly string[] };
}

async function services(): Promise<Readonly<Record<string, Service>>> {
  const [file] = parseYaml(await read('deploy/compose.yaml'));
  return (file as { services: Record<string, Service> }).services;
}

const OIDC_SETTINGS = 'apps/control-plane/src/features/access/oidc/settings.ts';
const APPS = ['migrate', 'control-plane', 'data-plane', 'metering'];

describe('the compose file', () => {
  it('starts Postgres, NATS and the three apps, after a migration', async () => {
    const all = await services();
    expect(Object.keys(all).sort()).toEqual([...APPS, 'nats', 'postgres'].sort());
    for (const { depends_on: before = {} } of Object.values(all)) {
      for (const name of Object.keys(before)) expect(all).toHaveProperty([name]);
    }
    expect(all.nats?.command).toContain('--jetstream');
    for (const { image } of Object.values(all)) expect(image).not.toMatch(/:latest$/);
  });

  it('runs the apps without privileges, reachable only from this machine', async () => {
    const all = await services();
    for (const name of APPS) {
      expect(all[name]).toMatchObject({ read_only: true, cap_drop: ['ALL'], user: '65532:65532' });
      for (const port of all[name]?.ports ?? []) expect(port).toMatch(/^127\.0\.0\.1:/);
    }
  });

  it('connects each service only to those that it needs', async () => {
    const all = await services();
    const reaches = (name: string) =>
      Object.keys(all)
        .filter(
          (other) =>
            other !== name && all[name]?.networks?.some((one) => all[other]?.networks?.includes(one)),
        )
        .sort();
    expect(Object.fromEntries(Object.keys(all).map((name) => [name, reaches(name)]))).toEqual({
      postgres: ['control-plane', 'metering', 'migrate'],
      nats: ['data-plane', 'metering'],
      migrate: ['control-plane', 'metering', 'postgres'],
      'control-plane': ['data-plane', 'metering', 'migrate', 'postgres'],
      'data-plane': ['control-plane', 'metering', 'nats'],
      metering: ['control-plane', 'data-plane', 'migrate', 'nats', 'postgres'],
    });
  });

  it('serves metrics on their own ports', async () => {
    const all = await services();
    for (const app of APPS.slice(1)) expect(all[app]?.environment).toMatchObject({ METRICS_PORT: '9090' });
    expect(all['data-plane']?.ports).toEqual(['127.0.0.1:8080:8080', '127.0.0.1:9080:9090']);
  });

  it('checks that each app is ready, by what the image has, and bounds its memory as the chart does', async () => {
    const all = await services();
    const [values] = parseYaml(await read('deploy/helm/weighbridge/values.yaml')) as [
      Record<string, { readonly resources: { readonly limits: { readonly memory: string } } }>,
    ];
    const ofChart = { 'control-plane': 'controlPlane', 'data-plane': 'dataPlane' } as Record<string, string>;
    const ports = { 'control-plane': 8081, 'data-plane': 8080, metering: 8083 };
    for (const [app, port] of Object.entries(ports)) {
      expect(all[app]?.healthcheck?.test).toEqual([
        'CMD',
        'node',
        '--eval',
        expect.stringContaining(`http://127.0.0.1:${port}/readyz`),
      ]);
      const memory = values[ofChart[app] ?? app]?.resources.limits.memory.replace(/i$/, '').toLowerCase();
      expect([app, all[app]?.mem_limit]).toEqual([app, expect.stringContaining(memory ?? '?')]);
    }
  });

  it('gives metering and the control plane the same archive, where a volume is, and temporary files on it', async () => {
    const all = await services();
    const [metering, controlPlane] = [all.metering, all['control-plane']];
    expect(metering?.volumes).toEqual(controlPlane?.volumes);
    const [, mount = ''] = metering?.volumes?.[0]?.split(':') ?? [];
    // A new volume gets the owner that the image has there.
    expect((await stages()).at(-1)?.map(({ text }) => text)).toContain('--from=rootfs /rootfs/ /');
    for (const app of [metering, controlPlane]) {
      expect(app?.environment?.LEDGER_ARCHIVE_URL).toMatch(/^\$\{LEDGER_ARCHIVE_URL:-\}$/);
      expect(app?.environment?.LEDGER_ARCHIVE_WORK_DIR).toMatch(new RegExp(`^${mount}/.`));
    }
  });

  it('contains no secret: each comes from the environment, and is required unless it is a vendor key', async () => {
    const secret = /KEY$|TOKEN$|PASSWORD$|PEPPER$/;
    for (const [name, { environment = {} }] of Object.entries(await services())) {
      for (const [variable, value] of Object.entries(environment)) {
        if (!secret.test(variable)) continue;
        expect(value, `${name} ${variable}`).toMatch(/^\$\{[A-Z_]+:[?-]\}$/);
      }
    }
  });

  it('sets only settings that the app declares', async () => {
    const all = await services();
    for (const app of APPS.slice(1)) {
      const source = `${await read(`apps/${app}/src/config.ts`)}${await read(OIDC_SETTINGS)}${Object.keys({ ...MetricsSettings, ...ArchiveSettings })}OPENAI_API_KEY ANTHROPIC_API_KEY NODE_OPTIONS`;
      const unknown = Object.keys(all[app]?.environment ?? {}).filter((name) => !source.includes(name));
      expect([app, ...unknown]).toEqual([app]);
    }
  });

  it('passes every setting of sign-in by OIDC to the control plane, where it is set', async () => {
    const declared = (await read(OIDC_SETTINGS)).matchAll(/^ {2}(OIDC_\w+):/gm);
    const names = [...[...declared].map(([, name = '']) => name), 'PUBLIC_URL'];
    expect(names.length).toBeGreaterThan(12);
    const { environment } = (await services())['control-plane'] ?? {};
    expect(environment).toMatchObject(Object.fromEntries(names.map((name) => [name, `\${${name}:-}`])));
  });

  it('runs only commands that the image contains', async () => {
    const [build = []] = await stages();
    const links = build.map(({ text }) => text).find((text) => text.includes('ln -s')) ?? '';
    for (const app of APPS.slice(1)) expect((await services())[app]?.command).toEqual([`${app}.js`]);
    for (const app of ['control-plane', 'data-plane', 'metering', 'weighbridge.js'])
      expect(links).toContain(app);
  });
});

describe('the Dockerfile', () => {
  it('builds a labelled image of nothing but Node and the apps, which runs as an unprivileged user', async () => {
    const last = (await stages()).at(-1) ?? [];
    const text = last.map((one) => `${one.name} ${one.text}`);
    // Only what the earlier stages copied: nothing runs here, so that another platform needs no emulation.
    expect(text[0]).toBe('FROM scratch');
    expect(text.filter((line) => line.startsWith('RUN'))).toEqual([]);
    expect(text).toContain('USER 65532:65532');
    // The chart and the compose file name the script that Node runs. A first process without a handler ignores SIGTERM.
    expect(text).toContain('ENTRYPOINT ["/usr/bin/tini", "--", "node"]');
    for (const label of ['source', 'version', 'revision', 'licenses', 'title']) {
      expect(text.find((line) => line.startsWith('LABEL'))).toContain(`org.opencontainers.image.${label}=`);
    }
  });

  it('copies only build inputs of the checkout, and no secrets', async () => {
    const ignored = (await read('.dockerignore')).split('\n');
    expect(ignored).toEqual(expect.arrayContaining(['.git', '.weighbridge', '**/node_modules', '**/dist']));
  });
});
