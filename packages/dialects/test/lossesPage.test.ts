import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { FORMATS, type Format, type TargetFormat } from '../src/format.ts';
import { type Loss, lossPattern } from '../src/loss/losses.ts';
import { DEFAULT_QUIRKS } from '../src/quirks/quirks.ts';
import { SAMPLES } from './samples.ts';
import { targetOf, translate } from './translating.ts';

const PAGE = fileURLToPath(new URL('../../../docs/translation.md', import.meta.url));
const NAMES: Readonly<Record<TargetFormat, string>> = {
  messages: 'messages',
  responses: 'responses',
  chat: 'chat completions',
  gemini: 'generateContent',
  converse: "Bedrock's Converse",
};

const INTRO = `# What translation changes

A request whose vendor speaks another dialect is [translated](api.md#translation). Most of it has a counterpart there. What has none is
**changed** or **dropped**, and the answer names it in \`x-svc-dropped\`; or the request is **refused** with 400
\`not_translatable\`, which names every such field, before anything is sent. With \`"translation": "strict"\` in a profile or policy, all of it is refused.

\`\`\`text
x-svc-dropped: system.0 dropped, metadata.user_id changed, messages.3.content.0.cache_control dropped
\`\`\`

The header names the first place of each kind, at most eight, and how many more there are; the row of the request in the ledger
has the same as \`dropped\`. A field that no dialect has is dropped by the same rule.

The tables are written from the translator's own account of requests with nearly all fields of their dialect, and a test compares
them. \`*\` is any index. What a model takes is known from the catalog: the tables are for a model of which nothing is known.
`;

const TARGETS: readonly TargetFormat[] = [...FORMATS, 'converse'];

/** All that a sample loses: strict translation refuses it, and says what would have become of it. */
function lossesOf(from: Format, to: TargetFormat): readonly Loss[] {
  const target = { ...targetOf(to), quirks: DEFAULT_QUIRKS[to] };
  return translate(from, SAMPLES[from], target, 'strict').losses;
}

function sectionOf(from: Format, to: TargetFormat): string {
  const rows = new Map<string, readonly string[]>();
  for (const { path, verdict, reason } of lossesOf(from, to)) {
    const pattern = lossPattern(path);
    rows.set(`${pattern} ${verdict} ${reason}`, [`\`${pattern}\``, verdict, reason.replaceAll('|', '\\|')]);
  }
  const sorted = [...rows.values()].sort(([a = ''], [b = '']) => (a < b ? -1 : 1));
  return `
## ${NAMES[from]} to ${NAMES[to]}

${table(['field', 'becomes', 'why'], sorted)}
`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) => Math.max(title.length, ...rows.map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}

it('docs/translation.md says what the translator loses; with --update=true, it is written', async () => {
  const pairs = FORMATS.flatMap((from) =>
    TARGETS.filter((to) => to !== from).map((to) => [from, to] as const),
  );
  await expect(INTRO + pairs.map(([from, to]) => sectionOf(from, to)).join('')).toMatchFileSnapshot(PAGE);
});
