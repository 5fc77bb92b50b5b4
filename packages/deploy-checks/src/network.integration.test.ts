import { describe, expect, it } from 'vitest';
import { example, manifests } from './helm.ts';
import { type Manifest, type Workload, workloads } from './manifests.ts';
import { mayConnect, type Pod, portsOut } from './network.ts';

const production = manifests('--values', example('production.values.yaml'));
const podOf = ({ labels }: Workload): Pod => ({ labels, namespace: 'weighbridge' });
const nameOf = ({ labels }: Workload) => labels['app.kubernetes.io/component'] ?? '';

const elsewhere = (namespace: string): Pod => ({ labels: { app: 'x' }, namespace });
const strangerPod = elsewhere('default');
const PORTS = { 'control-plane': [8081, 8082], 'data-plane': [8080], metering: [8083] } as const;

async function reachable(from: Pod): Promise<string[]> {
  const all = await production;
  return workloads(all)
    .flatMap((to) =>
      [8080, 8081, 8082, 8083]
        .filter((port) => mayConnect(all, from, podOf(to), port))
        .map((port) => `${nameOf(to)}:${port}`),
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
      'control-plane:8081',
      'data-plane:8080',
      'metering:8083',
    ]);
    expect(await reachable(strangerPod)).toEqual([]);
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
