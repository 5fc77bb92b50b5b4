import { type Query, readQuery } from './promql.ts';
import { read } from './repository.ts';

/** The labels of each known series, by its name. */
export type KnownSeries = ReadonlyMap<string, readonly string[]>;

/** Labels that Prometheus adds to every series of a pod. */
export const TARGET_LABELS = [
  'namespace',
  'pod',
  'container',
  'job',
  'instance',
  'app_kubernetes_io_component',
];

/** Series of Prometheus, kube-state-metrics and the kubelet. docs/metrics.md lists them too. */
export const FOREIGN: KnownSeries = new Map([
  ['up', []],
  ['kube_pod_status_ready', ['condition']],
  ['kube_pod_container_status_restarts_total', []],
  ['kube_pod_container_resource_limits', ['resource']],
  ['container_memory_working_set_bytes', []],
]);

/** The apps' series according to docs/metrics.md, which a test compares with the registered metrics. */
export async function documentedSeries(): Promise<KnownSeries> {
  const text = await read('docs/metrics.md');
  const rows = [...text.matchAll(/^\| `(\w+)` *\| (\w+) *\| ([^|]*)\|/gm)];
  return new Map(
    rows.flatMap(([, name = '', type, cell = '']): [string, readonly string[]][] => {
      const labels = [...cell.matchAll(/`(\w+)`/g)].map(([, label = '']) => label);
      if (type !== 'histogram') return [[name, labels]];
      return [
        [`${name}_bucket`, [...labels, 'le']],
        [`${name}_sum`, labels],
        [`${name}_count`, labels],
      ];
    }),
  );
}

/** The labels of a query's results. */
export function labelsOfResult(query: string, known: KnownSeries): Set<string> {
  const { groupings, bare } = readQuery(query);
  return new Set([
    ...groupings.flatMap(({ labels }) => labels),
    ...bare.flatMap((metric) => [...TARGET_LABELS, ...(known.get(metric) ?? [])]),
  ]);
}

/** The metrics that have an alert according to docs/metrics.md. */
export async function alertedMetrics(): Promise<string[]> {
  const text = await read('docs/metrics.md');
  return [...text.matchAll(/^\| `(\w+)` .*\balert *\|$/gm)].map(([, name = '']) => name);
}

/** Returns a message for each unknown metric and label in a query. */
export function unknownIn(query: string, known: KnownSeries): string[] {
  let read: Query;
  try {
    read = readQuery(query);
  } catch (error) {
    return [(error as Error).message];
  }
  const { selectors, groupings } = read;
  const has = (metric: string, label: string) =>
    TARGET_LABELS.includes(label) || known.get(metric)?.includes(label) === true;
  return [
    ...(selectors.length === 0 ? [`no metric in the query: ${query}`] : []),
    ...selectors.flatMap(({ metric, labels }) =>
      known.has(metric)
        ? labels.filter((label) => !has(metric, label)).map((label) => `${metric} has no label ${label}`)
        : [`there is no metric ${metric}`],
    ),
    ...groupings.flatMap(({ labels, metrics }) =>
      labels.flatMap((label) =>
        metrics.filter((metric) => !has(metric, label)).map((metric) => `${metric} has no label ${label}`),
      ),
    ),
  ];
}
