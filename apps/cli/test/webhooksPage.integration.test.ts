import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readDocuments } from './documentedCommands.ts';

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const SECRET = `whsec_${Buffer.alloc(32, 7).toString('base64')}`;
const BODY = '{"type":"budget.exhausted","timestamp":"2026-11-23T09:00:00.000Z","data":{}}';

let folder: string;
let receiver: ChildProcess;
let url: string;
let output = '';

/** The receiver of docs/webhooks.md, on a free port. */
beforeAll(async () => {
  const { blocks } = await readDocuments(ROOT);
  const block = blocks.find(
    ({ file, text }) => file === 'docs/webhooks.md' && text.includes('receiver.mjs <<'),
  );
  const code = /<<'END'\n(.*)\nEND/s.exec(block?.text ?? '')?.[1] ?? '';
  const listen = ".listen(4010, '127.0.0.1', () => console.log('listening'))";
  expect(code).toContain(listen);
  folder = await mkdtemp(join(tmpdir(), 'weighbridge-receiver-'));
  const file = join(folder, 'receiver.mjs');
  await writeFile(
    file,
    code.replace(listen, ".listen(0, '127.0.0.1', function () { console.log(this.address().port); })"),
  );
  receiver = spawn(process.execPath, [file], { env: { ...process.env, WEBHOOK_SECRET: SECRET } });
  receiver.stdout?.on('data', (chunk) => {
    output += chunk;
  });
  await once(receiver.stdout as NodeJS.ReadableStream, 'data');
  url = `http://127.0.0.1:${output.trim()}/`;
});
afterAll(async () => {
  receiver.kill();
  await rm(folder, { recursive: true, force: true });
});

function signed(at: Date, id = 'evt_1', body = BODY, secret = SECRET): Record<string, string> {
  return {
    'webhook-id': id,
    'webhook-timestamp': String(Math.floor(at.getTime() / 1_000)),
    'webhook-signature': new Webhook(secret).sign(id, at, body),
  };
}

async function send(headers: Record<string, string>, body = BODY): Promise<number> {
  return (await fetch(url, { method: 'POST', headers, body })).status;
}

const ago = (seconds: number) => new Date(Date.now() - seconds * 1_000);

it('takes what is signed, and acts once on what is repeated', async () => {
  expect(await send(signed(ago(0), 'evt_2'))).toBe(204);
  expect(await send(signed(ago(0), 'evt_2'))).toBe(204);
  expect(await send(signed(ago(290), 'evt_3'))).toBe(204);
  expect(output.split('\n').filter((line) => line === 'budget.exhausted')).toHaveLength(2);
});

it('takes one of several signatures, as during a rotation', async () => {
  const other = `whsec_${Buffer.alloc(32, 9).toString('base64')}`;
  const at = ago(0);
  const headers = signed(at);
  const both = `${signed(at, 'evt_1', BODY, other)['webhook-signature']} ${headers['webhook-signature']}`;
  expect(await send({ ...headers, 'webhook-signature': both })).toBe(204);
});

it.each([
  ['unsigned', () => ({})],
  ['without a time', () => ({ ...signed(ago(0)), 'webhook-timestamp': '' })],
  ['replayed', () => signed(ago(301))],
  // By more than the 300 s allowed, since a slow machine takes a while to send it.
  ['from the future', () => signed(ago(-360))],
  [
    'replayed with a new time',
    () => ({ ...signed(ago(3_600)), 'webhook-timestamp': signed(ago(0))['webhook-timestamp'] ?? '' }),
  ],
  ['about another event', () => ({ ...signed(ago(0)), 'webhook-id': 'evt_9' })],
  [
    'signed with another secret',
    () => signed(ago(0), 'evt_1', BODY, `whsec_${Buffer.alloc(32, 8).toString('base64')}`),
  ],
  ['signed with nothing', () => ({ ...signed(ago(0)), 'webhook-signature': 'v1,' })],
  [
    'signed with half',
    () => ({
      ...signed(ago(0)),
      'webhook-signature': signed(ago(0))['webhook-signature']?.slice(0, 20) ?? '',
    }),
  ],
  ['with a time that is no number', () => ({ ...signed(ago(0)), 'webhook-timestamp': 'NaN' })],
] as const)('refuses a message that is %s', async (_, headers) => {
  expect(await send(headers() as Record<string, string>)).toBe(401);
});

it('refuses a message that was altered', async () => {
  expect(await send(signed(ago(0)), BODY.replace('exhausted', 'threshold'))).toBe(401);
  expect(await send(signed(ago(0)), `${BODY} `)).toBe(401);
});
