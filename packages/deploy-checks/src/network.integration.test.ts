import { describe, expect, it } from 'vitest';
import { example, manifests, notes } from './helm.ts';
import { type Manifest, type Workload, workload, workloads } from './manifests.ts';
import { mayConnect, type Pod, portsOut } from './network.ts';

const production = manifests('--values', example('production.values.yaml'));
const podOf = ({ labels }: Workload): Pod => ({ labels, namespace: 'weighbridge' });
const nameOf = ({ labels }: Workload) => labels['app.kubernetes.io/component'] ?? '';

const elsewhere = (namespace: string): Pod => ({ labels: { app: 'x' }, namespace });
const strangerPod = elsewhere('default');
const PORTS = {
  'control-plane': [8081, 8082, 9090],
  'data-plane': [8080, 9090],
  metering: [8083, 9090],
} as const;
const ALL_PORTS = [8080, 8081, 8082, 8083, 9090];

async function reachable(from: Pod, of = production): Promise<string[]> {
  const all = await of;
  return workloads(all)
    .flatMap((to) =>
      ALL_PORTS.filter((port) => mayConnect(all, from, podOf(to), port)).map(
        (port) => `${nameOf(to)}:${port}`,
      ),
    )
    .sort();
}

describe('the network policies', () => {
  it('allow proxies to call the control plane, and no other connection between our pods', async () => {
    const all = await production;
    const edges = await Promise.all(
      workloads(all).map(async (from) =>
        (await reachable(podOf(from))).map((to) => `${nameOf(from)} → ${to}`),
      ),
    );
    expect(edges.flat()).toEqual(['data-plane → control-plane:8082']);
  });

  it('allow each app only the outgoing ports that it needs', async () => {
    const all = await production;
    const out = workloads(all).map((from) => [nameOf(from), portsOut(all, podOf(from))]);
    expect(Object.fromEntries(out)).toEqual({
      'control-plane': [53, 443, 5432],
      'data-plane': [53, 443, 4222],
      metering: [53, 4222, 5432],
      migration: [53, 5432],
    });
  });

  it('allow clients and Prometheus to reach their ports, and other pods none', async () => {
    expect(await reachable(elsewhere('ingress-nginx'))).toEqual(['control-plane:8081', 'data-plane:8080']);
    expect(await reachable(elsewhere('monitoring'))).toEqual([
      'control-plane:9090',
      'data-plane:9090',
      'metering:9090',
    ]);
    expect(await reachable(strangerPod)).toEqual([]);
  });

  it('allow no one in unless values name them, each to the port of its list alone', async () => {
    const namespace = 'namespaceSelector.matchLabels.kubernetes\\.io/metadata\\.name';
    const named = (list: string) => manifests('--set-string', `networkPolicy.${list}[0].${namespace}=theirs`);
    const theirs = elsewhere('theirs');
    for (const from of [theirs, strangerPod, elsewhere('weighbridge'), elsewhere('kube-system')])
      expect(await reachable(from, manifests())).toEqual([]);
    expect(await reachable(theirs, named('inferenceFrom'))).toEqual(['data-plane:8080']);
    expect(await reachable(theirs, named('operatorsFrom'))).toEqual(['control-plane:8081']);
    expect(await reachable(theirs, named('monitoringFrom'))).toEqual([
      'control-plane:9090',
      'data-plane:9090',
      'metering:9090',
    ]);
    for (const list of ['inferenceFrom', 'operatorsFrom', 'monitoringFrom'])
      expect(await reachable(strangerPod, named(list))).toEqual([]);
    for (const list of ['inferenceFrom', 'operatorsFrom', 'monitoringFrom'])
      expect(await notes()).toContain(`networkPolicy.${list}`);
  });

  it('allow connections to a database and NATS of the own namespace only, unless values name others', async () => {
    const [all, named] = await Promise.all([
      manifests(),
      manifests('--set', 'networkPolicy.database.to[0].ipBlock.cidr=10.1.2.3/32'),
    ]);
    const metering = podOf(workload(all, 'metering'));
    const own: Pod = { labels: { app: 'postgres' }, namespace: 'weighbridge' };
    for (const port of [5432, 4222]) {
      expect(mayConnect(all, metering, own, port)).toBe(true);
      expect(mayConnect(all, metering, { ...own, namespace: 'databases' }, port)).toBe(false);
    }
    expect(mayConnect(named, metering, own, 5432)).toBe(false);
  });

  it('open no port for metrics where none serves them', async () => {
    const off = manifests(
      '--set',
      'monitoring.metricsPort=0,networkPolicy.monitoringFrom[0].namespaceSelector.matchLabels.a=b',
    );
    expect(JSON.stringify(await off)).not.toMatch(/METRICS_PORT|9090/);
  });

  it('allow only the control plane to reach an OIDC issuer in the cluster', async () => {
    const edge = 'networkPolicy.oidcIssuer[0].to[0].podSelector.matchLabels.app=login';
    const all = await manifests('--set', `${edge},networkPolicy.oidcIssuer[0].ports[0]=8443`);
    const issuer: Pod = { labels: { app: 'login' }, namespace: 'weighbridge' };
    const reach = (of: readonly Manifest[]) =>
      workloads(of).filter((from) => mayConnect(of, podOf(from), issuer, 8443));
    expect(reach(all).map(nameOf)).toEqual(['control-plane']);
    expect(reach(await production)).toEqual([]);
  });

  it("block the cloud's metadata service and private addresses", async () => {
    const blocks =
      JSON.stringify(await production).match(/"cidr":"0\.0\.0\.0\/0","except":\[[^\]]*\]/g) ?? [];
    expect(blocks).toHaveLength(2);
    for (const block of blocks) {
      for (const range of ['10.0.0.0/8', '169.254.0.0/16', '192.168.0.0/16']) expect(block).toContain(range);
    }
  });

  it('are the only protection: without them, every pod may connect', async () => {
    const all = await manifests('--values', example('tryout.values.yaml'));
    for (const to of workloads(all)) {
      for (const port of PORTS[nameOf(to) as keyof typeof PORTS] ?? []) {
        expect(mayConnect(all, strangerPod, podOf(to), port)).toBe(true);
      }
    }
    expect(workloads(all).map((from) => portsOut(all, podOf(from)))).toEqual([
      undefined,
      undefined,
      undefined,
      undefined,
    ]);
  });
});
