import { readFile } from 'node:fs/promises';

export interface DocumentedMetric {
  readonly type: string;
  readonly labels: readonly string[];
}

/** What the tables of docs/metrics.md say, by the metric's name. */
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

/** Which metrics there are in Prometheus's text format, with or without values, and of which type. */
export function typesOf(text: string): Map<string, string> {
  return new Map(
    [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name = '', type = '']) => [name, type]),
  );
}

/** The labels of those that have values. */
export function labelsOf(text: string): Map<string, readonly string[]> {
  const samples = [...text.matchAll(/^((?:weighbridge|gen_ai)_\w+)(?:\{(.*)\})? \S+$/gm)];
  return new Map(
    samples.map(([, name = '', labels = '']) => [
      // Of a histogram, its buckets have a label of their own.
      name.replace(/_(bucket|sum|count)$/, ''),
      [...labels.matchAll(/(\w+)="/g)]
        .map(([, label = '']) => label)
        .filter((label) => label !== 'le')
        .sort(),
    ]),
  );
}
