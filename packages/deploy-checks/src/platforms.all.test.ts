import { describe, expect, it } from 'vitest';
import { example, manifests, render } from './helm.ts';
import { type Container, ofKind, workload, workloads } from './manifests.ts';
import { violations } from './policy.ts';
import { schemaErrors } from './schemas.ts';

// What clusters of companies ask of a chart beyond its defaults.

const APPS = ['controlPlane', 'dataPlane', 'metering'];
const ofApps = (...settings: readonly string[]) =>
  APPS.flatMap((app) => settings.map((setting) => `${app}.${setting}`)).join();
const set = (...values: readonly string[]) => values.flatMap((value) => ['--set', value]);
const PRODUCTION = ['--values', example('production.values.yaml')];

/** The manifests, which are right by their schemas and by the rules. */
async function right(...options: readonly string[]) {
  const all = await manifests(...options);
  expect(all.flatMap(schemaErrors)).toEqual([]);
  expect(violations(all)).toEqual([]);
  return all;
}

function variable({ env = [] }: Container, name: string): string | undefined {
  return env.find((one) => one.name === name)?.value;
}

describe('a cluster with', () => {
  it('a private certificate authority: every app and the migration trust it', async () => {
    const all = await right(...PRODUCTION, ...set('caBundle.configMap=company,caBundle.key=bundle.pem'));
    const pods = workloads(all).map(({ pod }) => pod);
    expect(pods).toHaveLength(4);
    for (const { containers, volumes } of pods) {
      const [container] = containers;
      if (!container) throw new Error('a pod without a container');
      expect(variable(container, 'NODE_EXTRA_CA_CERTS')).toBe('/etc/ssl/weighbridge/ca.crt');
      expect(container.volumeMounts).toContainEqual({
        name: 'ca-bundle',
        mountPath: '/etc/ssl/weighbridge',
        readOnly: true,
      });
      expect(volumes).toContainEqual({
        name: 'ca-bundle',
        configMap: { name: 'company', items: [{ key: 'bundle.pem', path: 'ca.crt' }] },
      });
    }
    const both = 'caBundle.configMap=company,controlPlane.settings.NODE_EXTRA_CA_CERTS=/a';
    expect((await render(...set(both))).output).toContain('remove the setting');
  });

  it('volumes and variables of the platform: they reach the app, and replace nothing of the chart', async () => {
    const volume = ['extraVolumes[0].name=scratch', 'extraVolumes[0].emptyDir.sizeLimit=1Gi'];
    const mount = ['extraVolumeMounts[0].name=scratch', 'extraVolumeMounts[0].mountPath=/scratch'];
    const all = await right(...set(ofApps('extraEnv.TZ=Europe/Paris', ...volume, ...mount)));
    for (const app of ['control-plane', 'data-plane', 'metering']) {
      const { pod } = workload(all, app);
      expect(variable(pod.containers[0] as Container, 'TZ')).toBe('Europe/Paris');
      expect(pod.containers[0]?.volumeMounts).toContainEqual({ name: 'scratch', mountPath: '/scratch' });
      expect(pod.volumes).toContainEqual({ name: 'scratch', emptyDir: { sizeLimit: '1Gi' } });
    }
  });

  it('a role for the apps that may not change the schema: the migration alone has the other', async () => {
    const all = await right(...set('database.migrationKey=owner'));
    const keys = workloads(all).map(({ manifest, pod }) => [
      manifest.kind,
      pod.containers[0]?.env?.find(({ name }) => name === 'DATABASE_URL')?.valueFrom?.secretKeyRef?.key,
    ]);
    expect(keys.filter(([, key]) => key === 'owner')).toEqual([['Job', 'owner']]);
    expect(keys.filter(([, key]) => key === 'uri')).toHaveLength(2);
  });

  it('IPv6 besides IPv4, or alone: the apps listen on both, and Services follow', async () => {
    const all = await right(...set('network.listen=::,network.ipFamilyPolicy=PreferDualStack'));
    for (const app of ['control-plane', 'data-plane', 'metering']) {
      const container = workload(all, app).pod.containers[0] as Container;
      for (const name of ['HOST', 'METRICS_HOST']) expect(variable(container, name)).toBe('::');
    }
    const controlPlane = workload(all, 'control-plane').pod.containers[0] as Container;
    expect(variable(controlPlane, 'GRPC_HOST')).toBe('::');
    const services = ofKind(all, 'Service').map(({ spec }) => spec.ipFamilyPolicy);
    expect(services).toEqual(services.map(() => 'PreferDualStack'));
    expect(services.length).toBeGreaterThan(1);
  });

  it('users of its own choice, as OpenShift: no pod names one, and none may be root', async () => {
    const all = await manifests(...set('runAsUser=0'));
    expect(all.flatMap(schemaErrors)).toEqual([]);
    for (const { pod } of workloads(all)) {
      expect(Object.keys(pod.securityContext ?? {}).sort()).toEqual([
        'fsGroupChangePolicy',
        'runAsNonRoot',
        'seccompProfile',
      ]);
    }
    expect(new Set(violations(all).map((violation) => violation.split(': ')[1]))).toEqual(
      new Set(['names no user']),
    );
  });

  it('priorities, affinities and a hard spread', async () => {
    const affinity =
      'affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]';
    const expression = `${affinity}.matchExpressions[0]`;
    const values = ofApps(
      'priorityClassName=payments',
      'spread.zones=DoNotSchedule',
      `${expression}.key=pool`,
      `${expression}.operator=In`,
      `${expression}.values[0]=llm`,
    );
    for (const { manifest } of workloads(await right(...set(values)))) {
      if (manifest.kind === 'Job') continue;
      const { priorityClassName, affinity, topologySpreadConstraints } = manifest.spec.template.spec;
      expect(priorityClassName).toBe('payments');
      expect(JSON.stringify(affinity)).toContain('"key":"pool"');
      const spread = (topologySpreadConstraints as Record<string, string>[]).map((one) => [
        one.topologyKey,
        one.whenUnsatisfiable,
      ]);
      expect(spread).toEqual([
        ['topology.kubernetes.io/zone', 'DoNotSchedule'],
        ['kubernetes.io/hostname', 'ScheduleAnyway'],
      ]);
    }
  });

  it.each([
    ['ingress', 'exposure.kind=ingress,exposure.host=llm.example'],
    [
      'httpRoute',
      'exposure.kind=httpRoute,exposure.host=llm.example,exposure.httpRoute.parentRefs[0].name=gw',
    ],
  ])('an operator API that is not exposed: %s', async (_kind, values) => {
    const without = JSON.stringify(await right(...set(values, 'exposure.operatorApi=false')));
    for (const path of ['/v1', '/v1beta', '/openai']) expect(without).toContain(`"${path}"`);
    for (const path of ['/api/v1', '/console', '/docs']) expect(without).not.toContain(`"${path}"`);
    expect(JSON.stringify(await right(...set(values)))).toContain('"/api/v1"');
  });
});

describe('values for a platform', () => {
  it.each([
    ['a secret as a variable', 'metering.extraEnv.SOME_PASSWORD=a'],
    ['an address with a password as a variable', 'metering.extraEnv.UPSTREAM=https://me:hunter22@a.example'],
    ["a variable of the chart's", 'dataPlane.extraEnv.SPOOL_DIR=/elsewhere'],
    ['a folder of the node', 'dataPlane.extraVolumes[0].name=node,dataPlane.extraVolumes[0].hostPath.path=/'],
    [
      "a volume of the chart's",
      'dataPlane.extraVolumes[0].name=data,dataPlane.extraVolumes[0].emptyDir.medium=Memory',
    ],
    [
      "a mount of the chart's volumes",
      'dataPlane.extraVolumeMounts[0].name=tls,dataPlane.extraVolumeMounts[0].mountPath=/a',
    ],
    ['root', 'runAsUser=-1'],
    ['an unknown address to listen on', 'network.listen=localhost'],
    ['an unknown rule of spreading', 'metering.spread.nodes=Never'],
  ])('refuse %s', async (_what, values) => {
    const { ok, output } = await render(...set(values));
    expect(ok).toBe(false);
    expect(output).toContain("values don't meet the specifications");
  });
});
