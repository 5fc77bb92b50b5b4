import { type Bedrock, startBedrock } from '@weighbridge/mock-vendor/clouds';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientScene, openClientScene } from './clientScene.ts';
import { addCloudClaude, runClaudeCode } from './cloudClaude.ts';
import { npmProgram } from './npmClients.ts';

const MINUTE_MS = 60_000;
const REGION = 'eu-central-1';
const NAME = 'anthropic.claude-opus-5-5-v1:0';
const KEYS = { accessKeyId: 'AKIDEXAMPLE00001', secretAccessKey: 'of-the-account' };

let scene: ClientScene;
let bedrock: Bedrock;
let claude: string;
beforeAll(async () => {
  claude = await npmProgram('claude');
  scene = await openClientScene();
  const models = { [NAME]: { sent: 'claude-opus-5-5', answered: 'claude-opus-5-5' } };
  bedrock = await startBedrock({ region: REGION, models, vendorUrl: scene.vendor('acme').url });
  bedrock.accounts = [KEYS];
  const { accessKeyId: access_key_id, secretAccessKey: secret_access_key } = KEYS;
  const auth = { kind: 'aws', region: REGION, access_key_id, secret_access_key };
  await addCloudClaude(scene, { provider: 'bedrock', name: NAME, base_url: bedrock.url, auth });
}, 5 * MINUTE_MS);
afterAll(async () => {
  await bedrock?.close();
  await scene?.close();
});

it('Claude Code finishes a task with Claude on Bedrock, and costs what is billed', {
  timeout: 2 * MINUTE_MS,
}, async () => {
  await runClaudeCode(scene, claude, `bedrock/${NAME}`);
  expect(bedrock.refusals).toEqual([]);
  expect(bedrock.invocations.length).toBeGreaterThanOrEqual(3);
});
