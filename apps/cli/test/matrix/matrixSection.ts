import type { Scenario } from './scenarios.ts';

/** A case of a cell of the matrix. All of them work, or the test fails. */
export interface MatrixResult {
  readonly surface: string;
  readonly sdk: string;
  /** By a model of its. */
  readonly vendor: string;
}

const TITLES: Readonly<Record<string, string>> = {
  'openai/gpt-6.1-sol': 'OpenAI',
  'anthropic/claude-opus-5-5': 'Anthropic',
  'gemini/gemini-3.8-flash': 'Gemini',
  'azure/gpt-6.1-sol': 'Azure OpenAI',
  'bedrock/anthropic.claude-opus-5-5-v1:0': 'Claude on Bedrock',
  'vertex/gemini-3.8-flash': 'Gemini on Vertex',
  'vertex/claude-opus-5-5@20260901': 'Claude on Vertex',
  'mistral/mistral-large-latest': 'Mistral',
  'acme/claude-opus-5-5': 'others like Anthropic',
};

/** The part of docs/clients.md that says which client works with which vendor. */
export function matrixSection(results: readonly MatrixResult[], scenarios: readonly Scenario[]): string {
  const vendors = [...new Set(results.map(({ vendor }) => vendor))];
  const surfaces = [...new Set(results.map(({ surface }) => surface))];
  const rows = surfaces.map((surface) => {
    const { sdk } = results.find((one) => one.surface === surface) ?? { sdk: '' };
    const cells = vendors.map((vendor) =>
      results.some((one) => one.surface === surface && one.vendor === vendor) ? '✓' : '',
    );
    return [`${surface} (\`${sdk}\`)`, ...cells];
  });
  return `## Every client on every vendor

Each cell is run by \`pnpm test:all\` with the official SDK and a simulator of the vendor, which refuses what the vendor refuses. In each,
the SDK parses the answer, and the ledger has the tokens and the cost that the vendor bills. ✓: all of the cases below.
Azure, Bedrock and Vertex get identities that are [computed](connectors.md#credentials).
Chat completions pass as they are, without signed reasoning, to OpenAI, Azure OpenAI and Mistral.
Everything else is [translated](api.md#translation) where the vendor's own dialect is another one. Mistral does not reason, and
refuses \`stream_options\`. Mistral cites no sources, nor do
chat completions that pass, but for OpenAI's models that search: the case is then that none are made up.

${table(['client', ...vendors.map((vendor) => TITLES[vendor] ?? vendor)], rows)}

${table(
  ['case', 'what'],
  scenarios.map(({ name, says }) => [name, says]),
)}
`;
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, at) =>
    Math.max(3, title.length, ...rows.map((row) => (row[at] ?? '').length)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(' | ')} |`;
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)].join('\n');
}
