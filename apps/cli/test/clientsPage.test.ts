import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { type Recipe, textOf } from '../src/connect/recipe.ts';
import { RECIPES } from '../src/connect/recipes.ts';

const PAGE = fileURLToPath(new URL('../../../docs/clients.md', import.meta.url));
const SERVICE = { url: 'https://ai.example.com', key: 'sk-svc-…' };

const INTRO = `# Clients

Connect a coding agent, SDK or framework by two settings, the address of this service and a key:

\`\`\`sh
weighbridge connect claude-code --budget 50
weighbridge connect            # lists the clients
\`\`\`

\`connect\` issues a key and prints what to paste, as below, with your address and that key. With \`--json\` it prints the same
for a program. [Command line](cli.md#connect-a-client) lists its options.

- Models have the names that the vendor gives them. \`<provider>/<model>\`, \`router/<profile>\` and the operator's aliases
  work too, but some SDKs choose what they send by the name, and know only the vendor's. What changes then is said below.
  The service can't tell what an SDK chose from what its user wrote, so it leaves both.
- A coding agent's session is a [session pin](routing.md#session-pins), and [attribution](api.md#attribution) in the ledger.
- \`pnpm test:clients\` runs each of these programs as published, with exactly these settings and nothing else in its
  environment. The ledger then has the tokens and the cost that the simulated vendor billed. Agents use their default model.
  Each program calls a tool twice and streams an answer, except instructor (structured answers, whole and in parts) and
  aider (an edit and two commits). Each sends the vendor what it sends it without this service, field by field.
- Any of them can use a model of [any other vendor](api.md#translation), by its name: \`claude --model gpt-6.1-sol\`,
  \`codex -m claude-opus-5-5\`, \`gemini -m claude-opus-5-5\`. The tests run Claude Code, Codex, Gemini CLI and opencode on the models of
  three other vendors each, for two tasks of two tool calls in one session, and let a profile go on with another vendor's model
  when the first fails. The simulators check the conversation: a signature of another vendor, or a call without its result, is
  refused. What these agents always send and no other vendor has, such as \`client_metadata\`, is dropped, and named in
  \`x-svc-dropped\`.
- A stream that an SDK aborts stops at the vendor within 100 ms, and is charged
  [what was seen](budgets.md#what-an-attempt-is-charged), if the vendor then stops billing. Ending the loop is enough for the SDKs
  of OpenAI and Anthropic; Google's needs an \`abortSignal\`.
- Refusals are the SDKs' own classes: a key that is not known is their \`AuthenticationError\` (401), a model that the policy
  forbids \`PermissionDeniedError\` (403), one that no one sells \`NotFoundError\` (404), a budget that is used up
  \`RateLimitError\` (429), asked once. Google's SDK has one class for them, \`ClientError\`, with the status in \`code\`;
  LiteLLM has no 403 of OpenAI and Google (\`APIError\`, \`BadRequestError\`).

This page is written from the table of \`connect\` (\`apps/cli/src/connect\`), and a test compares them.
`;

function sectionOf(recipe: Recipe): string {
  const routes = recipe.routes.map((route) => `\`${route}\``).join(', ');
  const session = recipe.session === undefined ? '' : ` Its session is in the header \`${recipe.session}\`.`;
  return `
## ${recipe.title}

\`${recipe.install}\`

\`\`\`text
${textOf(recipe, SERVICE)}
\`\`\`

Then: \`${recipe.next}\`

It sends ${routes}, by default or in the tests with the model \`${recipe.model}\`.${session}${recipe.note === undefined ? '' : ` ${recipe.note}`}
`;
}

/** What other tests have shown: they compare. */
const shown = (path: string) => readFileSync(new URL(path, import.meta.url), 'utf8');
const MATRIX = shown('matrix/translationMatrix.md');
const LANGCHAIN = shown('clients/langchainStandard.md');

it('docs/clients.md says what `weighbridge connect` prints; with -u, it is written', async () => {
  await expect(`${INTRO}
${MATRIX}
${LANGCHAIN}${RECIPES.map(sectionOf).join('')}`).toMatchFileSnapshot(PAGE);
});
