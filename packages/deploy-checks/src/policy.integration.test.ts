import { describe, expect, it } from 'vitest';
import { example, manifests } from './helm.ts';
import type { Manifest } from './manifests.ts';
import { RULES, violations } from './policy.ts';
import { schemaErrors } from './schemas.ts';

/** Verifies that each rule fails on a violation, planted in the manifests of the chart. */
const production = manifests('--values', example('production.values.yaml'));

type Change = (spec: NonNullable<Manifest['spec']>, manifest: Manifest) => unknown;

async function planted(name: string, change: Change): Promise<Manifest[]> {
  const all = structuredClone(await production);
  const found = all.find(({ kind, metadata }) => `${kind}/${metadata.name}` === name);
  if (!found) throw new Error(`no ${name}`);
  change(found.spec, found);
  return all;
}

const METERING = 'Deployment/weighbridge-metering';
const container = (spec: NonNullable<Manifest['spec']>) => spec.template.spec.containers[0];

const VIOLATIONS: Readonly<Record<string, readonly [of: string, change: Change, message: string][]>> = {
  'requests CPU and memory, and has a memory limit': [
    [METERING, (spec) => delete container(spec).resources.requests.cpu, 'no request of cpu'],
    [METERING, (spec) => delete container(spec).resources.limits, 'no limit of memory'],
  ],
  'has all three probes, except Jobs': [
    [METERING, (spec) => delete container(spec).readinessProbe, 'no readinessProbe'],
  ],
  'runs without privileges': [
    [METERING, (spec) => delete container(spec).securityContext, 'may write to its root file system'],
    [METERING, (spec) => (spec.template.spec.securityContext.runAsUser = 0), 'names no user'],
    [METERING, (spec) => container(spec).securityContext.capabilities.drop.pop(), 'keeps capabilities'],
  ],
  'gets secrets only by reference': [
    [
      METERING,
      (spec) => container(spec).env.push({ name: 'STATE_KEY', value: 'x' }),
      'STATE_KEY is in plain text',
    ],
    [
      METERING,
      (spec) => container(spec).env.push({ name: 'A', value: 'nats://a:b@c' }),
      'looks like a secret',
    ],
    [METERING, (spec) => container(spec).args.push('--key=sk-svc-abcdefgh'), 'looks like a secret'],
    [METERING, (_spec, manifest) => Object.assign(manifest, { kind: 'Secret' }), 'is a Secret in the chart'],
  ],
  'has no duplicate variable, and mounts only its own volumes': [
    [METERING, (spec) => container(spec).env.push({ name: 'PORT', value: '1' }), 'PORT is set twice'],
    [METERING, (spec) => spec.template.spec.volumes.pop(), 'there is no volume tmp'],
  ],
  'has a pinned image': [
    [METERING, (spec) => (container(spec).image = 'registry.example:5000/w'), 'is not pinned'],
    [METERING, (spec) => (container(spec).image = 'w:latest'), 'is not pinned'],
  ],
  'has enough time to shut down': [
    [
      'StatefulSet/weighbridge-data-plane',
      (spec) => (spec.template.spec.terminationGracePeriodSeconds = 900),
      'is killed after 900 s',
    ],
  ],
  'is spread over zones and machines, except Jobs': [
    [METERING, (spec) => spec.template.spec.topologySpreadConstraints.pop(), 'is not spread'],
  ],
  'selects existing pods': [
    [
      'Service/weighbridge-data-plane',
      (spec) => (spec.selector['app.kubernetes.io/component'] = 'dataplane'),
      'Service weighbridge-data-plane: selects nothing',
    ],
    [
      'PodDisruptionBudget/weighbridge-metering',
      (spec) => (spec.selector.matchLabels['app.kubernetes.io/name'] = 'x'),
      'selects nothing',
    ],
  ],
  'refers to existing ports and services': [
    ['Service/weighbridge-control-plane', (spec) => (spec.ports[1].targetPort = 'rpc'), 'has a port rpc'],
    [
      'Service/weighbridge-data-plane',
      (_spec, manifest) => ((manifest.metadata as { name: string }).name += 's'),
      'weighbridge-data-plane',
    ],
  ],
  'scales an existing workload that sets no replicas itself': [
    [
      'HorizontalPodAutoscaler/weighbridge-data-plane',
      (spec) => (spec.scaleTargetRef.kind = 'Deployment'),
      'scales nothing',
    ],
    [METERING, (spec) => (spec.replicas = 2), 'its target has replicas'],
  ],
};

describe('each policy rule', () => {
  it.each(Object.entries(VIOLATIONS))(
    'finds a violation: a container, a workload … %s',
    async (rule, cases) => {
      for (const [of, change, message] of cases) {
        const found = RULES[rule]?.(await planted(of, change));
        expect(found?.join('\n'), message).toContain(message);
      }
    },
  );

  it('has a violation in this test', () => {
    expect(Object.keys(VIOLATIONS).sort()).toEqual(Object.keys(RULES).sort());
  });

  it('finds no violation in the unchanged manifests', async () => {
    expect(violations(await production)).toEqual([]);
  });
});

describe('the schemas', () => {
  it.each<[string, Change, RegExp]>([
    [METERING, (spec) => (spec.replica = 2), /\/spec\/replica is not a field/],
    [METERING, (spec) => (container(spec).livenesProbe = {}), /livenesProbe is not a field/],
    [METERING, (spec) => (container(spec).env[0].valeu = 'x'), /valeu is not a field/],
    [METERING, (spec) => (spec.replicas = 'two'), /replicas/],
    ['ScaledObject/weighbridge-metering', (spec) => (spec.minReplicas = 1), /additional properties/],
    ['PodMonitor/weighbridge', (spec) => (spec.podMetricsEndpoint = []), /podMetricsEndpoint is not a field/],
    [
      'PrometheusRule/weighbridge',
      (spec) => (spec.groups[0].rules[0].express = 'x'),
      /express is not a field/,
    ],
    ['NetworkPolicy/weighbridge-metering', (spec) => (spec.egress[0].form = []), /form is not a field/],
    [METERING, (_spec, manifest) => Object.assign(manifest, { kind: 'Deploiment' }), /there is no schema/],
  ])('find the error in a %s', async (name, change, message) => {
    expect((await planted(name, change)).flatMap(schemaErrors).join('\n')).toMatch(message);
  });
});
