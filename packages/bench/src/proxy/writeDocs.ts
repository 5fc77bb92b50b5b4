import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Bar } from './bars.ts';
import type { ProxyFigures } from './proxy.ts';
import { readmeLines } from './readmeLines.ts';
import { barRows, NOT_MEASURED, proxyCharts, proxyNotes, tables } from './report.ts';

const inRepository = (path: string) => fileURLToPath(new URL(`../../../../${path}`, import.meta.url));
const DOCS = inRepository('docs/benchmarks.md');
const README = inRepository('README.md');
const END = '<!-- Up to here. -->';

/** The command that writes a section of a page is in the comment at its begin. */
const begin = (command: string) => `<!-- What follows is written by \`${command}\`. -->`;

interface WriteOptions {
  readonly machine: string;
  readonly bars: readonly Bar[];
  readonly docs?: string;
  readonly readme?: string;
}

/** Replaces the figures and charts of the proxy in docs/benchmarks.md, and its lines in README.md. */
export async function writeDocs(figures: ProxyFigures, options: WriteOptions): Promise<void> {
  const { machine, bars, docs = DOCS, readme = README } = options;
  const charts = proxyCharts(figures);
  const folder = join(dirname(docs), 'benchmarks');
  await mkdir(folder, { recursive: true });
  for (const [name, svg] of charts) await writeFile(join(folder, name), svg);
  const images = [...charts.keys()].map((name) => `![${name}](benchmarks/${name})`);
  const notMeasured = ['Not measured:', NOT_MEASURED.map((what) => `- ${what}`).join('\n')];
  const section = [...head(figures, machine, bars), ...images, ...markdownTables(figures), ...notMeasured];
  await replaceSection(docs, 'pnpm bench proxy --write', section);
  const lines = readmeLines(figures, bars).map((line) => `- ${line}`);
  await replaceSection(readme, 'pnpm bench --write', [lines.join('\n')]);
}

/** Replaces the figures of the peers in docs/benchmarks.md. */
export async function writePeersDocs(figures: ProxyFigures, options: WriteOptions): Promise<void> {
  const { machine, bars, docs = DOCS } = options;
  const section = [...head(figures, machine, bars), ...markdownTables(figures)];
  await replaceSection(docs, 'pnpm bench peers --write', section);
}

function head(figures: ProxyFigures, machine: string, bars: readonly Bar[]): string[] {
  const notes = proxyNotes(figures).map((note) => `- ${note}`);
  return [`${machine}.`, notes.join('\n'), markdownTable(barRows(bars))];
}

const markdownTables = (figures: ProxyFigures) => tables(figures).map(markdownTable);

/** Replaces the section of a file between its marks. */
async function replaceSection(file: string, command: string, parts: readonly string[]): Promise<void> {
  const text = await readFile(file, 'utf8');
  const from = text.indexOf(begin(command));
  const to = text.indexOf(END, from);
  if (from < 0 || to < 0) throw new Error(`${begin(command)} … ${END} are missing in ${file}`);
  const before = text.slice(0, from + begin(command).length);
  await writeFile(file, `${before}\n\n${parts.join('\n\n')}\n\n${text.slice(to)}`);
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
