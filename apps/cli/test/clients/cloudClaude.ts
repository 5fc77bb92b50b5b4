import { expect } from 'vitest';
import { type ClientScene, runClient } from './clientScene.ts';

const QUESTION = 'How heavy is the truck?';
const BASH = { command: 'echo 40 tonnes', description: 'Weighs the truck' };

/** Adds a cloud's account, and its Claude under all of Claude's names. */
export async function addCloudClaude(
  scene: ClientScene,
  { provider, name, base_url, auth }: { provider: string; name: string; base_url: string; auth: object },
): Promise<void> {
  const id = `${provider}/${name}`;
  await scene.manage('POST', '/api/v1/connectors', { name: provider, provider, base_url, auth });
  const known = await scene.manage('GET', '/api/v1/catalog/models/acme%2Fclaude-opus-5-5');
  const { context_window, max_output_tokens, capabilities, price } = known;
  const { price: rates } = price as { price: object };
  const model = { upstream_name: name, context_window, max_output_tokens, capabilities, price: rates };
  await scene.manage('PUT', `/api/v1/catalog/models/${encodeURIComponent(id)}`, model);
  await scene.manage('POST', '/api/v1/aliases', { name: 'claude-*', target: id });
}

/** Claude Code finishes a task with two calls of a tool, and names its betas; its requests cost what is billed. */
export async function runClaudeCode(scene: ClientScene, claude: string, model: string): Promise<void> {
  const connected = await scene.connect('claude-code');
  scene.begin({ 'x-mock-tool': `Bash ${JSON.stringify(BASH)}`, 'x-mock-tool-rounds': '2' });
  const ran = await runClient(scene, claude, ['-p', QUESTION, '--allowedTools', 'Bash'], connected);
  expect([ran.code, ran.output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);
  const asked = scene.tap.sent.flatMap(({ headers }) => String(headers['anthropic-beta'] ?? '').split(','));
  expect(asked.some((name) => name.startsWith('claude-code-'))).toBe(true);
  const rows = await scene.expectBilled(connected.key_id);
  expect(new Set(rows.map((row) => row.model))).toEqual(new Set([model]));
  expect(new Set(rows.map(({ outcome }) => outcome))).toEqual(new Set(['success']));
}
