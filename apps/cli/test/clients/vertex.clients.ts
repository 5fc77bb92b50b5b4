import {
  type GoogleTokens,
  startGoogleTokens,
  startVertex,
  type Vertex,
} from '@weighbridge/mock-vendor/clouds';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientScene, openClientScene } from './clientScene.ts';
import { addCloudClaude, runClaudeCode } from './cloudClaude.ts';
import { npmProgram } from './npmClients.ts';

const MINUTE_MS = 60_000;
const [PROJECT, LOCATION, NAME] = ['acme-models', 'europe-west1', 'claude-opus-5-5@20260901'];

let scene: ClientScene;
let tokens: GoogleTokens;
let vertex: Vertex;
let claude: string;
beforeAll(async () => {
  claude = await npmProgram('claude');
  scene = await openClientScene();
  tokens = await startGoogleTokens({ project: PROJECT });
  vertex = await startVertex({
    project: PROJECT,
    location: LOCATION,
    models: { [`anthropic/${NAME}`]: { sent: 'claude-opus-5-5' } },
    vendorUrl: scene.vendor('acme').url,
    tokens,
  });
  const auth = { kind: 'google', location: LOCATION, credentials: tokens.serviceAccount };
  await addCloudClaude(scene, { provider: 'vertex', name: NAME, base_url: vertex.url, auth });
}, 5 * MINUTE_MS);
afterAll(async () => {
  await Promise.all([vertex?.close(), tokens?.close()]);
  await scene?.close();
});

it('Claude Code finishes a task with Claude on Vertex AI, and costs what is billed', {
  timeout: 2 * MINUTE_MS,
}, async () => {
  await runClaudeCode(scene, claude, `vertex/${NAME}`);
  expect(vertex.refusals).toEqual([]);
  expect(vertex.calls.length).toBeGreaterThanOrEqual(3);
  expect(tokens.answers).toEqual(['token 200']);
});
