import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { HostileCase } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

const CREDENTIAL = 'sk-canary-of-the-tested-account';
/** What a test may read of an answer, and what may be on its way besides. */
const MOST_SENT = 64 * 1024 * 1024;
const MEGABYTE = Buffer.alloc(1024 * 1024, ' ');

/** What an operator's connector may be led to, and what asks it without being one. */
export const CONNECTOR_TESTS: readonly HostileCase[] = [
  {
    row: 'the test of a connector',
    title:
      "is the operator's alone; no endpoint holds it up, fills it, leads it on or has the credential shown",
    async run(scene) {
      const endpoint = await startEndpoint();
      try {
        const ids = await Promise.all(
          Object.keys(ENDPOINTS).map((name) => connect(scene, endpoint.url, name)),
        );
        await refusesTenants(scene, ids);
        expect(endpoint.asked).toEqual([]);
        const shown = await Promise.all(ids.map((id) => testShown(scene, id)));
        expect(endpoint.asked).toEqual(expect.arrayContaining(Object.keys(ENDPOINTS)));
        expect(endpoint.asked).not.toContain('elsewhere');
        expect(endpoint.sent).toBeLessThan(MOST_SENT);
        expect([...shown, scene.product.output()].join('\n')).not.toContain(CREDENTIAL);
      } finally {
        await endpoint.close();
      }
    },
  },
];

async function refusesTenants({ product, tenant }: Scene, ids: readonly string[]): Promise<void> {
  const { key } = await tenant();
  for (const id of [...ids, 'con_none', '..%2f..', '%00']) {
    const { status } = await manage(product, 'POST', `/api/v1/connectors/${id}/test`, { key });
    expect([id, [403, 404]]).toEqual([id, expect.arrayContaining([status])]);
  }
}

/** What an operator sees of a test: little, without control characters. A proxy that runs other tests is asked again. */
async function testShown({ product }: Scene, id: string): Promise<string> {
  return await eventually(async () => {
    const { status, body } = await manage(product, 'POST', `/api/v1/connectors/${id}/test`);
    const text = JSON.stringify(body);
    if (text.includes('runs other tests')) throw new Error('a proxy runs as many tests as it may');
    expect([status, body.tested_by]).toEqual([200, 'proxy']);
    expect(text.length).toBeLessThan(32_000);
    expect(text).not.toMatch(/\\u00|\u202e/u);
    return text;
  });
}

async function connect({ product }: Scene, url: string, name: string): Promise<string> {
  const body = { name: `tested ${name}`, provider: `tested-${name}`, dialect: 'openai', enabled: false };
  const made = await operate(product, 'POST', '/api/v1/connectors', {
    ...body,
    base_url: `${url}/${name}/v1`,
    credential: CREDENTIAL,
  });
  return String(made.id);
}

type Endpoint = (response: ServerResponse, authorization: string, sent: (bytes: number) => void) => void;

const ENDPOINTS: Readonly<Record<string, Endpoint>> = {
  hanging: () => {},
  dripping: (response) => {
    const timer = setInterval(() => response.write(' '), 100);
    response.once('close', () => clearInterval(timer));
  },
  endless: (response, _authorization, sent) => {
    const more = () => {
      while (!response.destroyed) {
        sent(MEGABYTE.length);
        if (!response.write(MEGABYTE)) return void response.once('drain', more);
      }
    };
    more();
  },
  bomb: (response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' });
    response.end(gzipSync(Buffer.alloc(MOST_SENT, ' ')));
  },
  redirecting: (response) => void response.writeHead(307, { location: '/elsewhere/v1/models' }).end(),
  repeating: (response, authorization) => {
    response.writeHead(401, { 'www-authenticate': authorization });
    response.end(JSON.stringify({ error: { message: `no: ${authorization}` } }));
  },
  listing: (response, authorization) => {
    const ids = [authorization, authorization.slice(7), 'a\u0000b\u202ec', 'x'.repeat(500_000)];
    response.end(JSON.stringify({ data: [...ids.map((id) => ({ id })), null, 1, { id: {} }] }));
  },
  broken: (response) => void response.socket?.end('HTTP/9.9 nonsense\r\n\r\n'),
};

async function startEndpoint() {
  const asked: string[] = [];
  const endpoint = { url: '', asked, sent: 0, close: async () => {} };
  const server = createServer((request, response) => {
    const [, name = ''] = (request.url ?? '').split('/');
    asked.push(name);
    const sent = (bytes: number) => {
      endpoint.sent += bytes;
    };
    ENDPOINTS[name]?.(response, request.headers.authorization ?? '', sent);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  endpoint.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  endpoint.close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return endpoint;
}
