/** The fields of Kubernetes objects that the rules read; their schemas check all fields. */

export type Labels = Readonly<Record<string, string>>;

export interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Labels;
    readonly annotations?: Labels;
  };
  // biome-ignore lint/suspicious/noExplicitAny: checked by the kind's schema before the rules see it.
  readonly spec?: any;
  readonly data?: Labels;
}

interface Variable {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: {
    readonly secretKeyRef?: { readonly name: string; readonly key: string };
    readonly fieldRef?: { readonly fieldPath: string };
  };
}

export interface Container {
  readonly name: string;
  readonly image: string;
  readonly args?: readonly string[];
  readonly command?: readonly string[];
  readonly env?: readonly Variable[];
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[];
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
  readonly resources?: { readonly requests?: Labels; readonly limits?: Labels };
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly startupProbe?: unknown;
  readonly livenessProbe?: unknown;
  readonly readinessProbe?: unknown;
}

interface Volume {
  readonly name: string;
  readonly secret?: { readonly secretName: string };
}

interface PodSpec {
  readonly containers: readonly Container[];
  readonly initContainers?: readonly Container[];
  readonly volumes?: readonly Volume[];
  readonly securityContext?: Readonly<Record<string, unknown>>;
  readonly automountServiceAccountToken?: boolean;
  readonly terminationGracePeriodSeconds?: number;
  readonly topologySpreadConstraints?: readonly unknown[];
}

/** A manifest that creates pods. */
export interface Workload {
  readonly manifest: Manifest;
  readonly labels: Labels;
  readonly pod: PodSpec;
}

/** The manifests that create pods, with their pods. */
export function workloads(all: readonly Manifest[]): Workload[] {
  return all
    .filter(({ kind }) => ['Deployment', 'StatefulSet', 'Job'].includes(kind))
    .map((manifest) => ({
      manifest,
      labels: manifest.spec.template.metadata.labels,
      pod: manifest.spec.template.spec,
    }));
}

/** Finds a workload by the end of its name, such as `data-plane`. */
export function workload(all: readonly Manifest[], name: string): Workload {
  const found = workloads(all).find(({ manifest }) => manifest.metadata.name.endsWith(name));
  if (!found) throw new Error(`no workload ${name}`);
  return found;
}

export const ofKind = (all: readonly Manifest[], kind: string): Manifest[] =>
  all.filter((manifest) => manifest.kind === kind);

export const selects = (selector: Labels, labels: Labels): boolean =>
  Object.entries(selector).every(([name, value]) => labels[name] === value);
