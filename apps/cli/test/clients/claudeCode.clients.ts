import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientScene, openClientScene, runClient } from './clientScene.ts';
import { npmProgram } from './npmClients.ts';

const BASH = { 'x-mock-tool': `Bash ${JSON.stringify({ command: 'echo 40 tonnes' })}`, 'x-mock-tool-rounds': '2' };
let scene: ClientScene;
let claude: string;
beforeAll(async () => {
  claude = await npmProgram('claude');
  scene = await openClientScene();
}, 300_000);
afterAll(() => scene?.close());

it.each([
  ['its default model', []],
  ['--model sonnet', ['--model', 'sonnet']],
])('Claude Code with %s', async (_, args) => {
  const connected = await scene.connect('claude-code');
  scene.begin(BASH);
  const ran = await runClient(
    scene,
    claude,
    ['-p', 'How heavy is the truck?', '--allowedTools', 'Bash', ...args],
    connected,
  );
  console.log(ran, scene.tap.sent.map(({ method, path, status, headers, body }) => [method, path, status, JSON.stringify(headers), body.slice(0, 200), /"model":"[^"]*"/.exec(body)?.[0]]), scene.deadEnd.hosts);
  const rows = await scene.expectBilled(connected.key_id);
  console.log(rows);
  expect(ran.output).toMatch(/The tool answered[\s\S]*40 tonnes/);
});
