import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Bar } from './bars.ts';
import type { ProxyFigures } from './proxy.ts';
import { barRows, NOT_MEASURED, proxyCharts, proxyNotes, tables } from './report.ts';

const DOCS = fileURLToPath(new URL('../../../../docs/benchmarks.md', import.meta.url));
const BEGIN = '<!-- What follows is written by `pnpm bench proxy --write`. -->';
const END = '<!-- Up to here. -->';

/** Replaces the figures and charts in docs/benchmarks.md. */
export async function writeDocs(
  figures: ProxyFigures,
  {
    machine,
    bars,
    file = DOCS,
  }: { readonly machine: string; readonly bars: readonly Bar[]; readonly file?: string },
): Promise<void> {
  const charts = proxyCharts(figures);
  const folder = join(dirname(file), 'benchmarks');
  await mkdir(folder, { recursive: true });
  for (const [name, svg] of charts) await writeFile(join(folder, name), svg);
  const text = await readFile(file, 'utf8');
  await writeFile(file, replaceSection(text, proxyMarkdown(figures, machine, bars)));
}

/** Replaces the section between the marks. */
function replaceSection(text: string, section: string): string {
  const [from, to] = [text.indexOf(BEGIN), text.indexOf(END)];
  if (from < 0 || to < from) throw new Error(`${BEGIN} … ${END} are missing in the file`);
  return `${text.slice(0, from + BEGIN.length)}\n\n${section}\n\n${text.slice(to)}`;
}

function proxyMarkdown(figures: ProxyFigures, machine: string, bars: readonly Bar[]): string {
  const images = [...proxyCharts(figures).keys()].map((name) => `![${name}](benchmarks/${name})`);
  return [
    `${machine}.`,
    proxyNotes(figures)
      .map((note) => `- ${note}`)
      .join('\n'),
    markdownTable(barRows(bars)),
    images.join('\n\n'),
    ...tables(figures).map(markdownTable),
    'Not measured:',
    NOT_MEASURED.map((what) => `- ${what}`).join('\n'),
  ].join('\n\n');
}

/** A table with aligned columns, as the formatter writes it. */
function markdownTable(rows: readonly (readonly string[])[]): string {
  const [head = [], ...body] = rows.map((row) => row.map((text) => text.replaceAll('|', '\\|')));
  const widths = head.map((_, at) => Math.max(3, ...[head, ...body].map((row) => (row[at] ?? '').length)));
  const line = (row: readonly string[]) =>
    `| ${widths.map((width, at) => (row[at] ?? '').padEnd(width)).join(' | ')} |`;
  return [line(head), `| ${widths.map((width) => '-'.repeat(width)).join(' | ')} |`, ...body.map(line)].join(
    '\n',
  );
}
