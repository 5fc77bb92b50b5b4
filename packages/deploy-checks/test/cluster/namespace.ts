import type { Manifest } from '../../src/manifests.ts';
import type { ApiAnswer, ApiServer } from './apiServer.ts';
import { CUSTOM_KINDS } from './customKinds.ts';

const FIELD_MANAGER = 'weighbridge-test';
const APPLY = 'application/apply-patch+yaml';

/** A namespace under Pod Security `restricted`, which refuses what it enforces and warns as well. */
export interface Namespace {
  readonly name: string;
  /** Applies on the server, with unknown fields refused. Returns what was refused or warned of. */
  apply(all: readonly Manifest[]): Promise<string[]>;
  /** Deletes those of the first that the second lack, as an upgrade does. */
  prune(before: readonly Manifest[], after: readonly Manifest[]): Promise<void>;
  /** Has the pod of each workload admitted, and creates none: without controllers, nothing else would. */
  admitPods(all: readonly Manifest[]): Promise<string[]>;
}

export async function createNamespace(server: ApiServer, name: string): Promise<Namespace> {
  const levels = ['enforce', 'warn', 'audit'].map((mode) => [
    `pod-security.kubernetes.io/${mode}`,
    'restricted',
  ]);
  const metadata = { name, labels: Object.fromEntries(levels) };
  expectDone(
    await server.call('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata }),
  );
  // A controller's work, which no controller does here.
  const account = { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'default' } };
  expectDone(await server.call('POST', `/api/v1/namespaces/${name}/serviceaccounts`, account));
  const pathOf = async (one: Manifest) => {
    const { path, isNamespaced } = await resourceOf(server, one);
    return `${path.base}${isNamespaced ? `/namespaces/${one.metadata.namespace ?? name}` : ''}/${path.plural}`;
  };
  return {
    name,
    async apply(all) {
      const said: string[] = [];
      for (const one of all) {
        const query = `fieldManager=${FIELD_MANAGER}&force=true&fieldValidation=Strict`;
        const path = `${await pathOf(one)}/${one.metadata.name}?${query}`;
        said.push(...complaints(one, await server.call('PATCH', path, one, APPLY)));
      }
      return said;
    },
    async prune(before, after) {
      const kept = new Set(after.map(keyOf));
      // Otherwise those of Jobs wait for a controller.
      for (const one of before.filter((old) => !kept.has(keyOf(old))))
        expectDone(
          await server.call(
            'DELETE',
            `${await pathOf(one)}/${one.metadata.name}?propagationPolicy=Background`,
          ),
        );
    },
    async admitPods(all) {
      const said: string[] = [];
      for (const one of all) {
        const template = one.kind === 'CronJob' ? one.spec.jobTemplate.spec.template : one.spec?.template;
        if (!template?.spec?.containers) continue;
        const { labels, annotations } = template.metadata ?? {};
        const podMetadata = { generateName: `${one.metadata.name}-`, labels, annotations };
        const pod = {
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: podMetadata,
          spec: withClaims(one, template.spec),
        };
        const path = `/api/v1/namespaces/${name}/pods?dryRun=All&fieldValidation=Strict`;
        said.push(...complaints(one, await server.call('POST', path, pod)));
      }
      return said;
    },
  };
}

/** A StatefulSet adds the volumes of its claims to its pods. */
function withClaims({ spec }: Manifest, pod: { volumes?: readonly unknown[] }): unknown {
  const claims = (spec?.volumeClaimTemplates ?? []) as { metadata: { name: string } }[];
  const volumes = claims.map(({ metadata: { name } }) => ({
    name,
    persistentVolumeClaim: { claimName: `${name}-0` },
  }));
  return { ...pod, volumes: [...(pod.volumes ?? []), ...volumes] };
}

/** Custom resources of operators that the examples need, taken as they are: their schemas are checked elsewhere. */
export async function defineCustomKinds(server: ApiServer): Promise<void> {
  for (const { group, version, kind, plural } of CUSTOM_KINDS) {
    const schema = { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } };
    const body = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: {
        name: `${plural}.${group}`,
        annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes/kubernetes/pull/78458' },
      },
      spec: {
        group,
        scope: 'Namespaced',
        names: { kind, plural, singular: kind.toLowerCase(), listKind: `${kind}List` },
        versions: [{ name: version, served: true, storage: true, schema }],
      },
    };
    expectDone(await server.call('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', body));
  }
}

/** A pod may only have a priority that the cluster knows. */
export async function definePriority(server: ApiServer, name: string): Promise<void> {
  const body = {
    apiVersion: 'scheduling.k8s.io/v1',
    kind: 'PriorityClass',
    metadata: { name },
    value: 1_000,
  };
  expectDone(await server.call('POST', '/apis/scheduling.k8s.io/v1/priorityclasses', body));
}

const keyOf = ({ kind, metadata }: Manifest): string => `${kind}/${metadata.name}`;

function complaints({ kind, metadata }: Manifest, { status, body, warnings }: ApiAnswer): string[] {
  const refused = status >= 300 ? [`refused with ${status}: ${body.message ?? body}`] : [];
  return [...refused, ...warnings].map((said) => `${kind}/${metadata.name}: ${said}`);
}

function expectDone({ status, body }: ApiAnswer): void {
  if (status >= 300) throw new Error(`${status} ${JSON.stringify(body)}`);
}

interface Resource {
  readonly path: { readonly base: string; readonly plural: string };
  readonly isNamespaced: boolean;
}

/** Where the server has objects of this kind. A new kind takes a moment. */
async function resourceOf(server: ApiServer, { apiVersion, kind }: Manifest): Promise<Resource> {
  const base = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`;
  for (let tries = 0; tries < 100; tries++) {
    const { status, body } = await server.call('GET', base);
    const resources =
      status === 200 ? (body.resources as { name: string; kind: string; namespaced: boolean }[]) : [];
    const found = resources.find((one) => one.kind === kind && !one.name.includes('/'));
    if (found) return { path: { base, plural: found.name }, isNamespaced: found.namespaced };
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
  throw new Error(`The API server has no ${kind} of ${apiVersion}.`);
}
