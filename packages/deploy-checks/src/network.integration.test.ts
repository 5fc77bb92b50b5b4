import { describe, expect, it } from 'vitest';
import { example, manifests } from './helm.ts';
import { type Manifest, type Workload, workloads } from './manifests.ts';
import { mayConnect, type Pod, portsOut } from './network.ts';

const production = manifests('--values', example('production.values.yaml'));
const podOf = ({ labels }: Workload): Pod => ({ labels, namespace: 'weighbridge' });
const nameOf = ({ labels }: Workload) => labels['app.kubernetes.io/component'] ?? '';

const elsewhere = (namespace: string): Pod => ({ labels: { app: 'x' }, namespace });
const stranger = elsewhere('default');
const PORTS = { 'control-plane': [8081, 8082], 'data-plane': [8080], metering: [8083] } as const;

async function entered(from: Pod): Promise<string[]> {
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
  it('let proxies call the control plane, and no other pod of ours call another', async () => {
    const all = await production;
    const edges = await Promise.all(
      workloads(all).map(async (from) => (await entered(podOf(from))).map((to) => `${nameOf(from)} → ${to}`)),
    );
    expect(edges.flat()).toEqual(['data-plane → control-plane:8082']);
  });

  it('let each leave for what it needs, and for nothing else', async () => {
    const all = await production;
    const out = workloads(all).map((from) => [nameOf(from), portsOut(all, podOf(from))]);
    expect(Object.fromEntries(out)).toEqual({
      'control-plane': [53, 443, 5432],
      'data-plane': [53, 443, 4222],
      metering: [53, 4222, 5432],
      migration: [53, 5432],
    });
  });

  it('let callers and Prometheus in where they are meant to, and strangers nowhere', async () => {
    expect(await entered(elsewhere('ingress-nginx'))).toEqual(['control-plane:8081', 'data-plane:8080']);
    expect(await entered(elsewhere('monitoring'))).toEqual([
      'control-plane:8081',
      'data-plane:8080',
      'metering:8083',
    ]);
    expect(await entered(stranger)).toEqual([]);
  });

  it('let the control plane alone reach an OIDC issuer in the cluster', async () => {
    const edge = 'networkPolicy.oidcIssuer[0].to[0].podSelector.matchLabels.app=login';
    const all = await manifests('--set', `${edge},networkPolicy.oidcIssuer[0].ports[0]=8443`);
    const issuer: Pod = { labels: { app: 'login' }, namespace: 'weighbridge' };
    const reach = (of: readonly Manifest[]) =>
      workloads(of).filter((from) => mayConnect(of, podOf(from), issuer, 8443));
    expect(reach(all).map(nameOf)).toEqual(['control-plane']);
    expect(reach(await production)).toEqual([]);
  });

  it("keep proxies from the cloud's metadata and from private addresses", async () => {
    const blocks =
      JSON.stringify(await production).match(/"cidr":"0\.0\.0\.0\/0","except":\[[^\]]*\]/g) ?? [];
    expect(blocks).toHaveLength(2);
    for (const block of blocks) {
      for (const range of ['10.0.0.0/8', '169.254.0.0/16', '192.168.0.0/16']) expect(block).toContain(range);
    }
  });

  it('are what keeps strangers out: without them, everybody may', async () => {
    const all = await manifests('--values', example('tryout.values.yaml'));
    for (const to of workloads(all)) {
      for (const port of PORTS[nameOf(to) as keyof typeof PORTS] ?? []) {
        expect(mayConnect(all, stranger, podOf(to), port)).toBe(true);
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
