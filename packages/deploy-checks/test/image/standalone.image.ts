import { freePort } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { buildImage } from './buildImages.ts';
import { type Container, startContainer, untilReady } from './containers.ts';
import { type Engine, openEngine } from './engine.ts';

const IMAGE = 'weighbridge-standalone-test';
const VOLUME = `weighbridge-standalone-test-${process.pid}`;

let engine: Engine;
let container: Container;
beforeAll(async () => {
  engine = await openEngine();
  await buildImage(engine, IMAGE, '--target', 'standalone');
}, 1_800_000);
afterAll(async () => {
  await container?.remove();
  await engine?.(['volume', 'rm', '--force', VOLUME]);
});

it('serves with its own Postgres, keeps its data in one volume over a kill, a stop and another container, and ends on SIGTERM', async () => {
  const PORT = await freePort();
  const url = `http://127.0.0.1:${PORT}`;
  const start = () =>
    startContainer(engine, {
      image: IMAGE,
      args: [],
      env: { PORT: String(PORT), HOST: '127.0.0.1' },
      volumes: [`${VOLUME}:/var/lib/weighbridge`],
      confined: false,
    });
  container = await start();
  await untilReady(PORT, container);
  // As the banner says.
  const command = (await container.logs()).match(/cat (\S+operator-key)/)?.[1] ?? '';
  const operatorKey = await engine(['exec', container.name, 'cat', command]);
  const created = await fetch(`${url}/api/v1/keys`, {
    method: 'POST',
    headers: { authorization: `Bearer ${operatorKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'app', principal_id: 'app' }),
  });
  const { key } = (await created.json()) as { key: string };
  const ask = async () => {
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'mock/echo', messages: [{ role: 'user', content: 'x' }] }),
    });
    await response.arrayBuffer();
    return response.status;
  };
  expect(await ask()).toBe(200);
  for (const [signal, code] of [
    ['KILL', 137],
    ['TERM', 0],
  ] as const) {
    await container.signal(signal);
    expect(await container.wait()).toBe(code);
    await engine(['start', container.name]);
    await untilReady(PORT, container);
    expect(await ask()).toBe(200);
  }
  await container.remove();
  container = await start();
  await untilReady(PORT, container);
  expect(await ask()).toBe(200);
}, 180_000);
