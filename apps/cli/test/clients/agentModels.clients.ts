import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ClientScene, openClientScene } from './clientScene.ts';

interface ClientNames {
  readonly clients: readonly { readonly client: string; readonly names: readonly string[] }[];
}
const NAMES = new URL('../../../../packages/catalog/clientNames.json', import.meta.url);
const { clients } = JSON.parse(await readFile(NAMES, 'utf8')) as ClientNames;
const AGENTS = /claude-code|codex|agents-core|opencode|gemini-cli/;
const QUESTION = 'How heavy is the truck?';
const messages = [{ role: 'user', content: QUESTION }];
const content = { role: 'user', parts: [{ text: QUESTION }] };

/** How an agent asks a model of this name. */
function requestFor(model: string): readonly [path: string, body: object] {
  if (model.startsWith('claude-')) return ['/v1/messages', { model, max_tokens: 64, messages }];
  if (model.includes('embedding')) return [`/v1beta/models/${model}:embedContent`, { content }];
  if (/^gem(ini|ma)-/.test(model))
    return [`/v1beta/models/${model}:generateContent`, { contents: [content] }];
  return ['/v1/responses', { model, input: QUESTION }];
}

let scene: ClientScene;
beforeAll(async () => {
  scene = await openClientScene();
}, 60_000);
afterAll(() => scene?.close());

it.each(clients.filter(({ client }) => AGENTS.test(client)))(
  'every model that $client names by itself answers, and costs what the vendor bills',
  async ({ names }) => {
    const connected = await scene.connect('anthropic-js');
    const headers = {
      'content-type': 'application/json',
      authorization: `Bearer ${connected.env.ANTHROPIC_API_KEY}`,
    };
    scene.begin();
    const answered = await Promise.all(
      names.map(async (name) => {
        const [path, body] = requestFor(name);
        const asked = { method: 'POST', headers, body: JSON.stringify(body) };
        const response = await fetch(new URL(path, scene.tap.url), asked);
        return [name, response.status, response.ok ? '' : await response.text()];
      }),
    );
    expect(answered).toEqual(names.map((name) => [name, 200, '']));
    await scene.expectBilled(connected.key_id);
  },
);
