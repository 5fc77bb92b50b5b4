import { request } from 'node:http';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect } from 'vitest';
import { chat, expectCovered, type HostileCase, hard, message, PLENTY } from './hostileCase.ts';
import { cpuSeconds, growthDuring, operate, type Product } from './product.ts';
import type { Scene, Tenant } from './scene.ts';

const MIB = 2 ** 20;
/** What a process grows by when it begins to work: compiled code, pools, a heap that has not been collected. */
const SLACK = 128 * MIB;

/** One at a time: memory is measured. */
export const MEMORY: readonly HostileCase[] = [
  {
    row: 'no key, no memory',
    title: 'no byte of a body is read before the route and the key are known',
    async run({ product }) {
      for (const [part, start] of [
        ['inference', 'POST /v1/nowhere'],
        ['inference', 'OPTIONS /v1/chat/completions'],
        ['inference', 'POST /v1/chat/completions'],
        ['management', 'POST /api/v1/nowhere'],
      ] as const) {
        const url = part === 'inference' ? product.inferenceUrl : product.managementUrl;
        const growth = await growthDuring(product, part, () => holdBodies(url, start));
        expect([start, growth < SLACK, growth]).toEqual([start, true, growth]);
      }
    },
  },
  {
    row: 'no tree of a body',
    title: '18 MB of small objects under a hard policy take little more than their bytes',
    async run({ product, tenant }) {
      const tried = await tenant(hard(PLENTY));
      const objects = '{},'.repeat(6_000_000);
      const body = `{"model":"openai/plain","messages":[{"role":"user","content":"x"}],"metadata":[${objects}{}]}`;
      const growth = await growthDuring(product, 'inference', () => tried.ask('/v1/chat/completions', body));
      expect(growth).toBeLessThan(SLACK + 2 * body.length);
    },
  },
  {
    row: 'one byte budget',
    title: 'bodies beyond the budget of the process are refused before they are read',
    async run({ product, tenant }) {
      const tried = await tenant();
      const text = 'weigh '.repeat(2 * MIB);
      const body = JSON.stringify({ ...chat('local/plain'), user: text });
      let answers: Awaited<ReturnType<Tenant['ask']>>[] = [];
      const growth = await growthDuring(product, 'inference', async () => {
        const script = { 'delay-ms': '2500', 'output-tokens': '1' };
        const asked = Array.from({ length: 24 }, () => tried.ask('/v1/chat/completions', body, { script }));
        answers = await Promise.all(asked.map((one) => one.catch(() => undefined))).then((all) =>
          all.filter((one) => one !== undefined),
        );
      });
      const refused = answers.filter(({ status }) => status === 503);
      const served = answers.filter(({ status }) => status === 200);
      expect(served.length).toBeGreaterThan(1);
      expect(served.length * body.length).toBeLessThanOrEqual(96 * MIB);
      for (const { headers } of refused) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
      expect(growth).toBeLessThan(2 * 96 * MIB + SLACK);
      // What was held is free again.
      const again = await tried.ask('/v1/chat/completions', body, { script: { 'output-tokens': '1' } });
      expect(again.status).toBe(200);
    },
  },
  {
    row: 'bombs and long events',
    title: 'an answer that unpacks to 128 MiB costs little memory, and no less than it was reserved for',
    async run({ product, tenant }) {
      for (const encoding of ['br', 'gzip']) {
        const tried = await tenant(hard(PLENTY));
        const script = { encoding, 'pad-bytes': String(128 * MIB), 'output-tokens': '500' };
        const body = chat('openai/plain', { max_completion_tokens: 500 });
        const growth = await growthDuring(product, 'inference', () =>
          readPacked(product, tried, body, script),
        );
        expect([encoding, growth < SLACK + 64 * MIB, growth]).toEqual([encoding, true, growth]);
        await expectCovered(tried);
      }
    },
  },
  {
    row: 'bombs and long events',
    title: 'an event of 16 MiB in small pieces is read in linear time',
    async run({ product, tenant }) {
      const tried = await tenant();
      const script = {
        'pad-bytes': String(16 * MIB),
        split: '2048',
        padding: 'objects',
        'output-tokens': '5',
      };
      const body = chat('openai/plain', { stream: true, stream_options: { include_usage: true } });
      const began = await cpuSeconds(product.pids.inference);
      const growth = await growthDuring(product, 'inference', () =>
        tried.ask('/v1/chat/completions', body, { script }),
      );
      expect((await cpuSeconds(product.pids.inference)) - began).toBeLessThan(8);
      expect(growth).toBeLessThan(2 * SLACK);
      await expectCovered(tried);
    },
  },
  {
    row: 'bombs and long events',
    title: 'an event of 150,000 lines is read in linear time',
    async run({ product, tenant }) {
      const tried = await tenant();
      const script = { 'pad-bytes': String(1.5 * MIB), padding: 'lines', 'output-tokens': '5' };
      const began = await cpuSeconds(product.pids.inference);
      await tried.ask('/v1/messages', message({ stream: true }), { script });
      expect((await cpuSeconds(product.pids.inference)) - began).toBeLessThan(5);
      await expectCovered(tried);
    },
  },
  {
    row: 'reading responses',
    title:
      'a read of an unknown response asks at most three connectors, counts as a request, and survives a failing one',
    run: expectBoundedFanOut,
  },
];

/** Opens connections that send all but the last byte of a body, and waits until the bytes are on their way. */
async function holdBodies(url: string, start: string): Promise<void> {
  const { hostname, port } = new URL(url);
  const piece = Buffer.alloc(MIB, 'x');
  const sockets = Array.from({ length: 12 }, () => {
    const socket = connect(Number(port), hostname);
    socket.on('error', () => {});
    socket.write(
      `${start} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: ${32 * MIB}\r\n\r\n`,
    );
    for (let sent = 0; sent < 31; sent++) socket.write(piece);
    return socket;
  });
  // Until everything is sent, or nothing more is taken.
  for (let quiet = 0, last = -1; quiet < 5; ) {
    await sleep(100);
    const sent = sockets.reduce(
      (sum, { bytesWritten, writableLength }) => sum + bytesWritten - writableLength,
      0,
    );
    quiet = sent === last ? quiet + 1 : 0;
    last = sent;
  }
  for (const socket of sockets) socket.destroy();
}

/** Reads an answer as it comes, without unpacking it. */
function readPacked(
  product: Product,
  tenant: Tenant,
  body: object,
  script: Record<string, string>,
): Promise<number> {
  return new Promise((resolve) => {
    const sent = request(`${product.inferenceUrl}/v1/chat/completions`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${tenant.key}`,
        'content-type': 'application/json',
        'accept-encoding': 'gzip, br',
        'x-mark': tenant.mark,
        ...Object.fromEntries(Object.entries(script).map(([name, value]) => [`x-mock-${name}`, value])),
      },
    });
    sent.on('response', (response) => {
      let bytes = 0;
      response.on('data', (part: Buffer) => {
        bytes += part.length;
      });
      response.on('error', () => {});
      response.on('close', () => resolve(bytes));
    });
    sent.on('error', () => resolve(0));
    sent.end(JSON.stringify(body));
  });
}

async function expectBoundedFanOut(scene: Scene): Promise<void> {
  const { product, vendor } = scene;
  const local = vendor('local');
  const added: string[] = [];
  for (let at = 0; at < 5; at++) {
    const { id } = await operate(product, 'POST', '/api/v1/connectors', {
      name: `extra-${at}`,
      provider: `extra${at}`,
      dialect: 'openai',
      // The first is asked first, and refuses connections.
      base_url: at === 0 ? 'http://127.0.0.1:9/v1' : local.url,
      credential: 'sk-extra',
      priority: at === 0 ? -20 : -10,
    });
    added.push(String(id));
    await operate(product, 'PUT', `/api/v1/catalog/models/${encodeURIComponent(`extra${at}/plain`)}`, {
      context_window: 1_000,
      price: {
        input_price: { currency_code: 'USD', units: 1, nanos: 0 },
        output_price: { currency_code: 'USD', units: 1, nanos: 0 },
      },
    });
  }
  try {
    await expectThreeAsked(scene);
  } finally {
    for (const id of added) await operate(product, 'PATCH', `/api/v1/connectors/${id}`, { enabled: false });
  }
}

async function expectThreeAsked({ vendor, tenant }: Scene): Promise<void> {
  const stored = await fetch(`${vendor('local').url}/responses`, {
    method: 'POST',
    body: JSON.stringify({ model: 'plain', input: 'made outside of the service' }),
  });
  const { id } = (await stored.json()) as { id: string };
  const tried = await tenant({ requests_per_minute: 8 });
  // A proxy learns of new connectors within moments.
  await expect
    .poll(async () => (await tried.ask(`/v1/responses/${id}`, undefined)).status, { interval: 700 })
    .toBe(200);
  const other = await tenant({ requests_per_minute: 8 });
  const asked = () =>
    vendors()
      .flatMap(({ requests }) => requests)
      .filter(({ path }) => path.includes('resp_unknown')).length;
  const vendors = () => [vendor('openai'), vendor('local')];
  // While a connector fails, no one knows whether it has the response.
  expect([404, 502]).toContain((await other.ask('/v1/responses/resp_unknown', undefined)).status);
  expect(asked()).toBeLessThanOrEqual(3);
  const statuses: number[] = [];
  for (let at = 0; at < 20; at++)
    statuses.push((await other.ask('/v1/responses/resp_unknown', undefined)).status);
  expect(statuses).toContain(429);
}
