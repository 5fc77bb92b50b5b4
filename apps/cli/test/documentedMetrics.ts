import { readFile } from 'node:fs/promises';

export interface DocumentedMetric {
  readonly type: string;
  readonly labels: readonly string[];
}

/** The tables of docs/metrics.md, by the metric's name. */
export async function documentedMetrics(): Promise<Map<string, DocumentedMetric>> {
  const text = await readFile(new URL('../../../docs/metrics.md', import.meta.url), 'utf8');
  const rows = [...text.matchAll(/^\| `(\w+)` *\| (\w+) *\| ([^|]*)\|/gm)];
  return new Map(
    rows.map(([, name = '', type = '', labels = '']) => [
      name,
      { type, labels: [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label).sort() },
    ]),
  );
}

/** The types of the metrics in a Prometheus text, with or without values. */
export function typesOf(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', type = '']) => [name, type]),
  );
}

/** The labels of the metrics with values. */
export function labelsOf(text: string): Map<string, readonly string[]> {
  const samples = [...text.matchAll(/^((?:weighbridge|gen_ai)_\w+)(?:\{(.*)\})? \S+$/gm)];
  return new Map(
    samples.map(([, name = '', labels = '']) => [
      // The buckets of a histogram have the additional label `le`.
      name.replace(/_(bucket|sum|count)$/, ''),
      [...labels.matchAll(/(\w+)="/g)]
        .map(([, label = '']) => label)
        .filter((label) => label !== 'le')
        .sort(),
    ]),
  );
}
