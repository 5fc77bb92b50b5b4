import { readdir } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { example, helm, manifests, REQUIRED } from '../../src/helm.ts';
import type { Manifest } from '../../src/manifests.ts';
import { CHART, parseYaml, read } from '../../src/repository.ts';
import { type ApiServer, startApiServer } from './apiServer.ts';
import { createNamespace, defineCustomKinds, definePriority } from './namespace.ts';
import { previousChart } from './previousChart.ts';

const EXAMPLES = (await readdir(`${CHART}/examples`)).sort();
const VALUES = EXAMPLES.filter((name) => name.endsWith('.values.yaml') && name !== 'nats.values.yaml');
const OBJECTS = EXAMPLES.filter((name) => !name.endsWith('.values.yaml'));
const PLATFORM = fileURLToPath(new URL('platform.values.yaml', import.meta.url));
/** As docs/deploy.md uses them: identities are beside the production values. */
const VARIANTS: readonly (readonly [string, readonly string[]])[] = [
  ['default', []],
  ['platform', ['--values', example('production.values.yaml'), '--values', PLATFORM]],
  ['user of the platform', ['--set', 'runAsUser=0']],
  ...VALUES.map((name) => {
    const files = name.startsWith('identity-') ? ['production.values.yaml', name] : [name];
    return [basename(name, '.values.yaml'), files.flatMap((file) => ['--values', example(file)])] as const;
  }),
];

let server: ApiServer;
beforeAll(async () => {
  server = await startApiServer();
  await defineCustomKinds(server);
  await definePriority(server, 'payments');
}, 45 * 60_000);
afterAll(() => server?.close());

let namespaces = 0;
const newNamespace = () => createNamespace(server, `weighbridge-${++namespaces}`);
const inNamespace = (all: readonly Manifest[], namespace: string): Manifest[] =>
  all.map((one) => ({ ...one, metadata: { ...one.metadata, namespace } }));

describe.each(VARIANTS)('the chart with %s values, under Pod Security restricted', (_name, options) => {
  it('is applied on the server, upgraded and rolled back, without a warning', async () => {
    const namespace = await newNamespace();
    const of = async (...changes: string[]) =>
      inNamespace(await manifests(...options, ...changes), namespace.name);
    const first = await of();
    const next = await of('--set', 'image.tag=9.9.9', '--set', 'metering.replicas=3');
    expect(await namespace.apply(first)).toEqual([]);
    for (const [before, after] of [
      [first, next],
      [next, first],
    ] as const) {
      // A hook's Job is made again, as Helm does.
      await namespace.prune(
        before,
        after.filter(({ kind }) => kind !== 'Job'),
      );
      expect(await namespace.apply(after)).toEqual([]);
    }
  });

  it('has pods that are admitted without a warning', async () => {
    const namespace = await newNamespace();
    const all = inNamespace(await manifests(...options), namespace.name);
    const isAccount = ({ kind }: Manifest) => kind === 'ServiceAccount';
    expect(await namespace.apply(all.filter(isAccount))).toEqual([]);
    expect(await namespace.admitPods(all)).toEqual([]);
  });
});

it('the examples of other objects are applied without a warning', async () => {
  const namespace = await newNamespace();
  for (const name of OBJECTS) {
    const all = parseYaml(await read(`deploy/helm/weighbridge/examples/${name}`)) as Manifest[];
    expect(await namespace.apply(inNamespace(all, namespace.name))).toEqual([]);
  }
});

it('what Pod Security forbids is refused here', async () => {
  const namespace = await newNamespace();
  const all = inNamespace(await manifests(), namespace.name);
  const changed = structuredClone(all.find(({ kind }) => kind === 'StatefulSet'));
  if (!changed) throw new Error('no StatefulSet');
  changed.spec.template.spec.serviceAccountName = 'default';
  changed.spec.template.spec.containers[0].securityContext.allowPrivilegeEscalation = true;
  expect(await namespace.apply([changed])).toEqual([expect.stringContaining('would violate PodSecurity')]);
  expect(await namespace.admitPods([changed])).toEqual([
    expect.stringMatching(/refused with 403: .*PodSecurity/),
  ]);
  changed.spec.replica = 1;
  expect(await namespace.apply([changed])).toEqual([expect.stringContaining('replica')]);
});

describe('Helm', () => {
  it.each(VARIANTS)(
    'installs, upgrades the chart of the previous release, and rolls back: %s',
    async (name, options) => {
      const namespace = await newNamespace();
      const previous = await previousChart();
      const values = [...REQUIRED, ...options];
      const isIn = previous && (name === 'default' || (await renders(previous, values)));
      const run = async (...args: string[]) => {
        const over = completeJobs(namespace.name);
        const where = ['--namespace', namespace.name, '--kubeconfig', server.kubeconfig, '--timeout', '2m'];
        const { ok, output } = await helm(...args, ...where).finally(over);
        expect(`${args[0]}: ${ok ? 'done' : output}`).toBe(`${args[0]}: done`);
      };
      await run('install', 'weighbridge', isIn ? previous : CHART, ...values);
      await run('upgrade', 'weighbridge', CHART, ...values);
      await run('upgrade', 'weighbridge', CHART, ...values, '--set', 'image.tag=9.9.9');
      await run('rollback', 'weighbridge', '2');
      await run('rollback', 'weighbridge', '1');
      await run('uninstall', 'weighbridge');
    },
  );
});

/** The values of an example that is newer than the chart are unknown to it. */
const renders = async (chart: string, options: readonly string[]): Promise<boolean> =>
  (await helm('template', 'weighbridge', chart, '--kube-version', 'v1.34.0', ...options)).ok;

/** No controller runs the Jobs that Helm waits for. Returns what ends it. */
function completeJobs(namespace: string): () => void {
  const over = new AbortController();
  const path = `/apis/batch/v1/namespaces/${namespace}/jobs`;
  const loop = async () => {
    while (!over.signal.aborted) {
      const { body } = await server.call('GET', path);
      for (const { metadata, status } of body.items ?? []) {
        if (status.completionTime) continue;
        const time = new Date().toISOString().replace(/\.\d+Z$/, 'Z');
        const conditions = ['SuccessCriteriaMet', 'Complete'].map((type) => ({ type, status: 'True' }));
        const done = { startTime: time, completionTime: time, succeeded: 1, conditions };
        await server.call(
          'PATCH',
          `${path}/${metadata.name}/status`,
          { status: done },
          'application/merge-patch+json',
        );
      }
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  };
  void loop().catch(() => {});
  return () => over.abort();
}
