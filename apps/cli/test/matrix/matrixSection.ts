import type { Scenario } from './scenarios.ts';

/** A cell of the matrix, as it turned out. */
export interface MatrixResult {
  readonly surface: string;
  readonly sdk: string;
  readonly vendor: string;
  readonly scenario: string;
  /** Why it does not work; empty if it does. */
  readonly failure: string;
}

const TITLES: Readonly<Record<string, string>> = {
  openai: 'OpenAI',
  anthropic: 'Anthropic',
  gemini: 'Gemini',
  azure: 'Azure',
  mistral: 'Mistral',
  acme: 'others like Anthropic',
};

/** The part of docs/clients.md that says which client works with which vendor. */
export function matrixSection(results: readonly MatrixResult[], scenarios: readonly Scenario[]): string {
  const vendors = [...new Set(results.map(({ vendor }) => vendor))];
  const surfaces = [...new Set(results.map(({ surface }) => surface))];
  const rows = surfaces.map((surface) => {
    const { sdk } = results.find((one) => one.surface === surface) ?? { sdk: '' };
    const cells = vendors.map((vendor) =>
      cellOf(results.filter((one) => one.surface === surface && one.vendor === vendor)),
    );
    return [`${surface} (\`${sdk}\`)`, ...cells];
  });
  const failing = results.filter(({ failure }) => failure !== '');
  const reasons = failing.map(
    ({ surface, vendor, scenario, failure }) => `- ${surface} on ${TITLES[vendor]}, ${scenario}: ${failure}`,
  );
  return `## Every client on every vendor

Each cell is run by \`pnpm test\` with the official SDK and a simulator of the vendor, which refuses what the vendor refuses. In each,
the SDK parses the answer, and the ledger has the tokens and the cost that the vendor bills. ✓: all of the cases below.
Chat completions pass as they are to all of these vendors but the last, since they serve them too, without signed reasoning.
Everything else is [translated](api.md#translation) where the vendor's own dialect is another one. Mistral does not reason, and
refuses \`stream_options\`.

${table(['client', ...vendors.map((vendor) => TITLES[vendor] ?? vendor)], rows)}

${table(
  ['case', 'what'],
  scenarios.map(({ name, says }) => [name, says]),
)}
${reasons.length > 0 ? `\n${reasons.join('\n')}\n` : ''}`;
}

function cellOf(results: readonly MatrixResult[]): string {
  const failing = results.filter(({ failure }) => failure !== '').map(({ scenario }) => scenario);
  return failing.length === 0 ? '✓' : `all but ${failing.join(', ')}`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) =>
    Math.max(3, title.length, ...rows.map((row) => (row[at] ?? '').length)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}
