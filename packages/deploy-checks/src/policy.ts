import {
  type Container,
  type Labels,
  type Manifest,
  ofKind,
  selects,
  type Workload,
  workloads,
} from './manifests.ts';

/** A requirement on manifests beyond their schemas. Returns a message per violation. */
type Rule = (all: readonly Manifest[]) => string[];

const SECRET_NAME = /KEY$|KEYS$|TOKEN|PASSWORD|PEPPER|SECRET|CREDENTIAL|^DATABASE_URL$/;
/** Settings with a secret-like name that are paths of files or folders. */
const NO_SECRET = /_FILE$|_DIRS?$/;
const SECRET_VALUE = /:\/\/[^/\s]*:[^/\s]*@|sk-[A-Za-z0-9-]{8,}|-----BEGIN|[A-Za-z0-9+/]{43}=/;

const eachContainer =
  (check: (container: Container, workload: Workload) => string[]): Rule =>
  (all) =>
    workloads(all).flatMap((workload) =>
      [...(workload.pod.initContainers ?? []), ...workload.pod.containers].flatMap((container) =>
        check(container, workload).map((wrong) => `${workload.manifest.metadata.name}: ${wrong}`),
      ),
    );

const isJob = ({ manifest }: Workload) => manifest.kind === 'Job';

export const RULES: Readonly<Record<string, Rule>> = {
  'requests CPU and memory, and has a memory limit': eachContainer(({ resources }) => {
    const { requests = {}, limits = {} } = resources ?? {};
    const missing = ['cpu', 'memory']
      .filter((name) => !requests[name])
      .map((name) => `no request of ${name}`);
    return limits.memory ? missing : [...missing, 'no limit of memory'];
  }),

  'has all three probes, except Jobs': eachContainer((container, workload) =>
    isJob(workload)
      ? []
      : (['startupProbe', 'livenessProbe', 'readinessProbe'] as const)
          .filter((probe) => !container[probe])
          .map((probe) => `no ${probe}`),
  ),

  'runs without privileges': eachContainer(({ securityContext = {} }, { pod }) => {
    const { securityContext: ofPod = {}, automountServiceAccountToken } = pod;
    const wanted: [boolean, string][] = [
      [securityContext.runAsNonRoot === true && ofPod.runAsNonRoot === true, 'may run as root'],
      [Number(ofPod.runAsUser) > 0, 'names no user'],
      [securityContext.readOnlyRootFilesystem === true, 'may write to its root file system'],
      [securityContext.allowPrivilegeEscalation === false, 'may gain privileges'],
      [JSON.stringify(securityContext.capabilities) === '{"drop":["ALL"]}', 'keeps capabilities'],
      [
        JSON.stringify(securityContext.seccompProfile) === '{"type":"RuntimeDefault"}',
        'has no seccomp profile',
      ],
      [automountServiceAccountToken === false, 'has a token of the cluster'],
    ];
    return wanted.filter(([holds]) => !holds).map(([, wrong]) => wrong);
  }),

  'gets secrets only by reference': (all) => [
    ...eachContainer(({ args = [], command = [], env = [] }) => [
      ...env
        .filter(({ name, value }) => value && SECRET_NAME.test(name) && !NO_SECRET.test(name))
        .map(({ name }) => `${name} is in plain text`),
      ...[...args, ...command, ...env.map(({ value }) => value ?? '')]
        .filter((text) => SECRET_VALUE.test(text))
        .map(() => 'a value that looks like a secret is in plain text'),
    ])(all),
    ...ofKind(all, 'Secret').map(({ metadata }) => `${metadata.name} is a Secret in the chart`),
  ],

  'has no duplicate variable, and mounts only its own volumes': eachContainer(
    (container, { pod, manifest }) => {
      const names = (container.env ?? []).map(({ name }) => name);
      const twice = names
        .filter((name, at) => names.indexOf(name) !== at)
        .map((name) => `${name} is set twice`);
      const claims: { metadata: { name: string } }[] = manifest.spec.volumeClaimTemplates ?? [];
      const volumes = [...(pod.volumes ?? []), ...claims.map(({ metadata }) => metadata)].map(
        ({ name }) => name,
      );
      const missing = (container.volumeMounts ?? []).filter(({ name }) => !volumes.includes(name));
      return [...twice, ...missing.map(({ name }) => `there is no volume ${name}`)];
    },
  ),

  'has a pinned image': eachContainer(({ image }) =>
    /@sha256:|:[^:/]+$/.test(image) && !/:latest$/.test(image) ? [] : [`${image} is not pinned`],
  ),

  'has enough time to shut down': eachContainer(({ env = [] }, { pod, manifest }) => {
    if (manifest.kind === 'Job') return [];
    const grace = pod.terminationGracePeriodSeconds ?? 30;
    const seconds = (setting: string, otherwise: number) =>
      Number(env.find(({ name }) => name === setting)?.value ?? otherwise) / 1_000;
    const needed = seconds('SHUTDOWN_DELAY_MS', 0) + seconds('SHUTDOWN_GRACE_MS', 10_000);
    return grace > needed + 10 ? [] : [`is killed after ${grace} s, but may take ${needed} s and more`];
  }),

  'is spread over zones and machines, except Jobs': (all) =>
    workloads(all)
      .filter((workload) => !isJob(workload) && workload.pod.topologySpreadConstraints?.length !== 2)
      .map(({ manifest }) => `${manifest.metadata.name}: is not spread`),

  'selects existing pods': (all) => {
    const pods = workloads(all).filter((workload) => !isJob(workload));
    const selecting: [Manifest, Labels][] = [
      ...ofKind(all, 'Service').map((one): [Manifest, Labels] => [one, one.spec.selector]),
      ...['PodDisruptionBudget', 'Deployment', 'StatefulSet', 'PodMonitor'].flatMap((kind) =>
        ofKind(all, kind).map((one): [Manifest, Labels] => [one, one.spec.selector.matchLabels]),
      ),
    ];
    return selecting
      .filter(([, selector]) => !selector || !pods.some(({ labels }) => selects(selector, labels)))
      .map(([{ kind, metadata }]) => `${kind} ${metadata.name}: selects nothing`);
  },

  'refers to existing ports and services': (all) => [
    ...ofKind(all, 'Service').flatMap(({ metadata, spec }) =>
      workloads(all)
        .filter(({ labels }) => selects(spec.selector, labels))
        .flatMap(({ pod }) => {
          const names = pod.containers.flatMap(({ ports = [] }) => ports.map(({ name }) => name));
          return (spec.ports as { targetPort: string }[])
            .filter(({ targetPort }) => !names.includes(targetPort))
            .map(({ targetPort }) => `Service ${metadata.name}: no container has a port ${targetPort}`);
        }),
    ),
    ...backends(all).filter((name) => !ofKind(all, 'Service').some(({ metadata }) => metadata.name === name)),
  ],

  'scales an existing workload that sets no replicas itself': (all) =>
    ['HorizontalPodAutoscaler', 'ScaledObject']
      .flatMap((kind) => ofKind(all, kind))
      .flatMap(({ metadata, spec: { scaleTargetRef: target } }) => {
        const found = workloads(all).find(
          ({ manifest: { kind, metadata: of } }) =>
            of.name === target.name && kind === (target.kind ?? 'Deployment'),
        );
        if (!found) return [`${metadata.name}: scales nothing`];
        return found.manifest.spec.replicas === undefined
          ? []
          : [`${metadata.name}: its target has replicas`];
      }),
};

/** The services that an Ingress or HTTPRoute routes to. */
function backends(all: readonly Manifest[]): string[] {
  return [
    ...ofKind(all, 'Ingress').flatMap(({ spec }) =>
      (spec.rules as { http: { paths: { backend: { service: { name: string } } }[] } }[]).flatMap(
        ({ http }) => http.paths.map(({ backend }) => backend.service.name),
      ),
    ),
    ...ofKind(all, 'HTTPRoute').flatMap(({ spec }) =>
      (spec.rules as { backendRefs: { name: string }[] }[]).flatMap(({ backendRefs }) =>
        backendRefs.map(({ name }) => name),
      ),
    ),
  ];
}

/** The violations of all rules in these manifests. */
export const violations = (all: readonly Manifest[]): string[] =>
  Object.values(RULES).flatMap((rule) => rule(all));
