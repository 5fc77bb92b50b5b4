import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { npmProgram } from '../clients/npmClients.ts';
import { runAgent } from './agents.ts';
import { expectExact, hard, PLENTY } from './hostileCase.ts';
import { openScene, type Scene, type Tenant } from './scene.ts';

const QUESTION = 'How heavy is the truck?';
const COMMAND = 'echo 40 tonnes';

/**
 * Real programs with a hard budget. The simulated vendors are strict: they refuse what their own API does not know. Model
 * names have their provider's prefix.
 */
describe('a coding agent with a hard budget finishes its task, and costs what the vendor bills', () => {
  let scene: Scene;
  let tenant: Tenant;
  const programs = new Map<'claude' | 'codex', string>();

  beforeAll(async () => {
    scene = await openScene('embedded');
    for (const name of ['claude', 'codex'] as const) programs.set(name, await npmProgram(name));
  });
  afterAll(() => scene?.close());
  const program = (name: 'claude' | 'codex') => programs.get(name) ?? '';

  it('Claude Code', async () => {
    tenant = await scene.tenant(hard(PLENTY));
    const { code, output } = await runAgent(
      program('claude'),
      ['-p', QUESTION, '--model', 'anthropic/plain', '--allowedTools', 'Bash'],
      {
        ANTHROPIC_BASE_URL: scene.product.inferenceUrl,
        ANTHROPIC_API_KEY: tenant.key,
        ANTHROPIC_DEFAULT_HAIKU_MODEL: 'anthropic/plain',
        ANTHROPIC_DEFAULT_SONNET_MODEL: 'anthropic/plain',
        ANTHROPIC_DEFAULT_OPUS_MODEL: 'anthropic/plain',
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
        ANTHROPIC_CUSTOM_HEADERS: `x-mark: ${tenant.mark}\nx-mock-tool: Bash ${JSON.stringify({ command: COMMAND })}`,
      },
    );
    expect([code, output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);
    await expectTask('anthropic', '/v1/messages');
  });

  it('Codex', async () => {
    tenant = await scene.tenant(hard(PLENTY));
    const config = `
      model = "openai/plain"
      model_provider = "weighbridge"
      [model_providers.weighbridge]
      name = "Weighbridge"
      base_url = "${scene.product.inferenceUrl}/v1"
      env_key = "WEIGHBRIDGE_KEY"
      wire_api = "responses"
      http_headers = { "x-mark" = "${tenant.mark}", "x-mock-tool" = 'exec_command ${JSON.stringify({ cmd: COMMAND })}' }
    `;
    const { code, output } = await runAgent(
      program('codex'),
      ['exec', '--skip-git-repo-check', '--dangerously-bypass-approvals-and-sandbox', QUESTION],
      { WEIGHBRIDGE_KEY: tenant.key },
      { '.codex/config.toml': config },
    );
    expect([code, output]).toEqual([0, expect.stringMatching(/The tool answered[\s\S]*40 tonnes/)]);
    await expectTask('openai', '/v1/responses');
  });

  /** It used a tool and then answered; each request passed hard mode, and each is in the ledger. */
  async function expectTask(name: 'anthropic' | 'openai', path: string): Promise<void> {
    const sent = scene
      .vendor(name)
      .requests.filter((one) => one.headers['x-mark'] === tenant.mark && one.path.startsWith(path));
    expect(sent.length).toBeGreaterThanOrEqual(2);
    const answered = tenant.entries();
    expect(answered.length).toBeGreaterThanOrEqual(2);
    await expectExact(tenant, answered.length);
    const rows = await tenant.rows(answered.length);
    expect(rows).toHaveLength(answered.length);
  }
});
