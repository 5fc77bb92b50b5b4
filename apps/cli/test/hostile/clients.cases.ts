import { request } from 'node:http';
import { brotliCompressSync, gzipSync } from 'node:zlib';
import { expect } from 'vitest';
import { chat, expectExact, type HostileCase, hard } from './hostileCase.ts';
import { growthDuring } from './product.ts';
import { dial, rawRequest } from './rawClient.ts';
import type { Tenant } from './scene.ts';

const MIB = 2 ** 20;
/** The memory budget is 96 MiB. */
const SLACK = 128 * MIB;
const COMPLETION = { prompt: 'weigh', model: 'local/plain' };

/** What clients of other vendors, of code completion and of agents bring with them does no harm. */
export const CLIENTS: readonly HostileCase[] = [
  {
    row: 'coded bodies',
    title: 'thirty bodies of 30 KB that decode to 30 MB are refused, and take no memory',
    async run({ product, tenant }) {
      const { key } = await tenant();
      const body = JSON.stringify(chat('local/plain', { user: 'x'.repeat(30 * MIB) }));
      const bombs: [string, Buffer][] = [
        ['gzip', gzipSync(body)],
        ['br', brotliCompressSync(body)],
      ];
      let statuses: (number | undefined)[] = [];
      const growth = await growthDuring(product, 'inference', async () => {
        statuses = await Promise.all(
          Array.from({ length: 30 }, (_, at) => {
            const [coding = '', bomb = Buffer.alloc(0)] = bombs[at % 2] ?? [];
            return sendCoded(product.inferenceUrl, key, coding, bomb);
          }),
        );
      });
      // Some before they are out of proportion, since the others have the memory.
      for (const status of statuses) expect([413, 503]).toContain(status);
      expect(statuses).toContain(413);
      // They would decode to 900 MB. What was decoded stays until the next collection.
      expect(growth).toBeLessThan(2 * 96 * MIB + SLACK);
    },
  },
  {
    row: 'unserved routes',
    title: 'are refused by name, in the dialect of the caller, without a key and before the body',
    async run({ product }) {
      for (const [path, dialect] of [
        ['/v1/audio/speech', 'openai'],
        ['/openai/deployments/gpt-5/images/generations', 'openai'],
        ['/v1/messages/batches', 'anthropic'],
        ['/v1beta/cachedContents', 'google'],
      ] as const) {
        const connection = await dial(product.inferenceUrl);
        connection.write(rawRequest(`POST ${path}`, ['content-length: 30000000']));
        const text = await connection.reads(/\}$/);
        expect([path, text.slice(0, 12), /route_not_served/i.test(text)]).toEqual([
          path,
          'HTTP/1.1 404',
          true,
        ]);
        expect(text.includes('"type":"error"')).toBe(dialect === 'anthropic');
        expect(text.includes('"NOT_FOUND"')).toBe(dialect === 'google');
        connection.destroy();
      }
    },
  },
  {
    row: 'WebSocket',
    title: 'is refused at once with 426, without a key, and its connection closes',
    async run({ product }) {
      // Idle for longer, and still open when the other one is closed: it is not closed for being idle.
      const idle = await dial(product.inferenceUrl);
      idle.write(rawRequest('GET /healthz'));
      await idle.reads(/^HTTP\/1.1 200 /);
      const connection = await dial(product.inferenceUrl);
      const upgrade = ['connection: Upgrade', 'upgrade: websocket', 'sec-websocket-version: 13'];
      connection.write(rawRequest('GET /v1/responses', upgrade));
      const text = await connection.closes();
      expect(idle.isClosed).toBe(false);
      idle.destroy();
      expect(text).toMatch(/^HTTP\/1.1 426 /);
    },
  },
  {
    row: 'deployments',
    title: "the model of Azure's path is the one that the policy and the bill go by",
    async run({ tenant }) {
      const tried = await tenant({ allowed_models: ['local/plain'] });
      const { messages } = chat('');
      const at = (deployment: string, body: object) =>
        tried.ask(`/openai/deployments/${deployment}/chat/completions?api-version=2024-10-21`, body);
      const forbidden = await at('openai/plain', { model: 'local/plain', messages });
      expect([forbidden.status, forbidden.code]).toEqual([403, 'model_not_allowed']);
      expect((await at('local%2Fplain', { model: 'openai/plain', messages })).status).toBe(200);
      await expectExact(tried);
    },
  },
  {
    row: 'completions',
    title: 'each prompt of a list counts against a hard limit',
    async run({ tenant }) {
      const tried = await tenant(hard(20_000));
      const many = await tried.ask('/v1/completions', {
        ...COMPLETION,
        prompt: Array.from({ length: 500 }, () => 'x'),
        max_tokens: 4_000,
      });
      expect([many.status, many.code]).toEqual([429, 'budget_exhausted']);
      expect(tried.billed()).toBe(0);
      for (const fields of [{ echo: true }, { n: 1e3 }, { best_of: '5' }, { BEST_OF: 5 }]) {
        expect((await tried.ask('/v1/completions', { ...COMPLETION, ...fields })).status).toBe(400);
      }
      expect(
        (await tried.ask('/v1/completions', { ...COMPLETION, prompt: ['a', 'b'], max_tokens: 5 })).status,
      ).toBe(200);
      await expectExact(tried);
    },
  },
];

function sendCoded(
  url: string,
  key: Tenant['key'],
  coding: string,
  body: Buffer,
): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-encoding': coding,
      'content-length': body.length,
    };
    const sent = request(`${url}/v1/chat/completions`, { method: 'POST', headers }, (answer) => {
      answer.resume().on('end', () => resolve(answer.statusCode));
    });
    sent.on('error', reject);
    sent.end(body);
  });
}
