import { once } from 'node:events';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { createServer as createTcpServer } from 'node:net';
import { hostname } from 'node:os';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { HostileCase } from './hostileCase.ts';
import { growthDuring, operate, type Product } from './product.ts';
import type { Scene } from './scene.ts';

type Json = Record<string, unknown>;
const ROW = 'webhooks';

/** What an endpoint does to the service that posts to it, and who names an endpoint that is not theirs. */
export const WEBHOOKS: readonly HostileCase[] = [
  { row: ROW, title: 'go to no address inside, in any spelling, or by a name', run: addressesInside },
  { row: ROW, title: 'follow no redirect, to inside or elsewhere', run: redirects },
  {
    row: ROW,
    title: 'that hang, at any point of an answer, end in seconds and hold up no other',
    run: hanging,
  },
  { row: ROW, title: 'that answer without end take no memory, and show a line of it', run: hugeAnswers },
  { row: ROW, title: 'that answer what is no HTTP are failures, not faults', run: notHttp },
  { row: ROW, title: 'can neither be made, read nor tested by tenants', run: tenants },
  { row: ROW, title: 'show their secrets nowhere', run: secrets },
];

interface Endpoint {
  readonly url: string;
  readonly port: number;
  /** How many requests came. */
  readonly count: () => number;
  close(): void;
}

async function startEndpoint(answer: RequestListener): Promise<Endpoint> {
  let count = 0;
  const server = createServer((request, response) => {
    count++;
    response.on('error', () => {});
    request.resume();
    answer(request, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}/hook`,
    port,
    count: () => count,
    close() {
      server.closeAllConnections();
      server.close();
    },
  };
}

let hooks = 0;
const create = async (product: Product, url: string, fields: Json = {}, key?: string) =>
  await manage(product, 'POST', '/api/v1/webhooks', {
    body: { name: `hostile hook ${++hooks}`, url, events: ['price.stale'], ...fields },
    ...(key !== undefined && { key }),
  });
const codeOf = ({ status, body }: { readonly status: number; readonly body: Json }) =>
  `${status} ${(body.error as Json | undefined)?.code}`;

/** Creates a webhook, has it tested, and deletes it again. */
async function tested(product: Product, url: string): Promise<Json> {
  const { body, status } = await create(product, url);
  expect([url, status]).toEqual([url, 201]);
  try {
    return await operate(product, 'POST', `/api/v1/webhooks/${body.id}/test`);
  } finally {
    await operate(product, 'DELETE', `/api/v1/webhooks/${body.id}`);
  }
}

async function addressesInside({ product }: Scene): Promise<void> {
  const inside = await startEndpoint((_request, response) => void response.end('inside'));
  // Not the same: it is allowed, so an event of its type may reach it meanwhile.
  const outside = await startEndpoint((_request, response) => void response.end());
  try {
    const { port } = inside;
    const hosts = [
      'localhost',
      'LOCALHOST',
      'localhost.',
      'a.localhost',
      '127.0.0.2',
      '127.2',
      '0x7f.0.0.2',
      '2130706434',
      '0177.0.0.2',
      '0.0.0.0',
      '0',
      '10.0.0.1',
      '172.16.0.1',
      '192.168.0.1',
      '169.254.169.254',
      '100.64.0.1',
      '[::1]',
      '[::]',
      '[::ffff:127.0.0.2]',
      '[::ffff:7f00:2]',
      '[64:ff9b::a9fe:a9fe]',
      '[fd00::1]',
      '[fe80::1]',
      '１２７.0.0.2',
    ];
    const urls = [
      ...hosts.flatMap((host) => [`https://${host}:${port}/`, `https://${host}/`]),
      `http://localhost:${port}/`,
      'http://hooks.example.com/',
      'file:///etc/passwd',
      'gopher://127.0.0.2:70/x',
      'javascript:0',
      `https://a@127.0.0.2:${port}/`,
      `https://hooks.example.com#@127.0.0.2/`,
      `https://user:pass@hooks.example.com/`,
      'https://',
      '//hooks.example.com/',
      `https://hooks.example.com/${'x'.repeat(3_000)}`,
      'https://hooks.example.com/\r\nhost: x',
    ];
    const allowed = await create(product, outside.url);
    expect(allowed.status).toBe(201);
    for (const url of urls) {
      const made = await create(product, url);
      expect([400, 422], `${url} ${codeOf(made)}`).toContain(made.status);
      const path = `/api/v1/webhooks/${allowed.body.id}`;
      expect([400, 422], url).toContain((await manage(product, 'PATCH', path, { body: { url } })).status);
    }
    await operate(product, 'DELETE', `/api/v1/webhooks/${allowed.body.id}`);
    // A name is looked up at each attempt: what it stands for when the webhook is made does not matter.
    const named = await tested(product, `https://${hostname().toLowerCase()}:${port}/`);
    expect(named.ok).toBe(false);
    expect(inside.count()).toBe(0);
  } finally {
    inside.close();
    outside.close();
  }
}

async function redirects({ product }: Scene): Promise<void> {
  const inside = await startEndpoint((_request, response) => void response.end('inside'));
  try {
    const targets = [
      inside.url,
      `http://localhost:${inside.port}/`,
      'https://[::1]/',
      '/hook',
      '//x',
      'file:///etc/passwd',
    ];
    for (const location of targets) {
      for (const status of [301, 302, 303, 307, 308]) {
        const endpoint = await startEndpoint((_request, response) => {
          response.writeHead(status, { location, refresh: `0; url=${location}` }).end('moved');
        });
        try {
          const result = await tested(product, endpoint.url);
          expect([location, result.ok, result.status]).toEqual([location, false, status]);
          expect(String(result.message)).toMatch(/redirect/);
          expect(endpoint.count()).toBe(1);
        } finally {
          endpoint.close();
        }
      }
    }
    expect(inside.count()).toBe(0);
  } finally {
    inside.close();
  }
}

const HANGS: Readonly<Record<string, RequestListener>> = {
  'before its head': () => {},
  'in its head': (_request, response) => void response.socket?.write('HTTP/1.1 200 OK\r\nx: '),
  'in a failure, drop by drop': (_request, response) => {
    response.writeHead(500);
    const timer = setInterval(() => response.write('.'), 200);
    response.on('close', () => clearInterval(timer));
  },
  'before its head, with informational answers': (_request, response) => {
    const timer = setInterval(() => response.socket?.write('HTTP/1.1 102 Processing\r\n\r\n'), 200);
    response.on('close', () => clearInterval(timer));
    response.socket?.on('close', () => clearInterval(timer));
  },
};

async function hanging({ product }: Scene): Promise<void> {
  const healthy = await startEndpoint((_request, response) => void response.writeHead(204).end());
  const endpoints = await Promise.all(Object.values(HANGS).map(startEndpoint));
  try {
    const hung = Promise.all(endpoints.map(({ url }) => tested(product, url)));
    // While they hang, others are answered.
    expect(await tested(product, healthy.url)).toMatchObject({ ok: true, status: 204 });
    // What ends them is the time-out of an attempt: these endpoints hang for as long as they are asked.
    for (const { ok, message } of await hung)
      expect([ok, message]).toEqual([
        false,
        expect.stringMatching(/^It (did not answer within 10000 ms|answered with 500)/),
      ]);
  } finally {
    for (const endpoint of [healthy, ...endpoints]) endpoint.close();
  }
}

async function hugeAnswers({ product }: Scene): Promise<void> {
  const chunk = Buffer.alloc(256 * 1024, 'A\u202e\u0007\n<!channel> ');
  const endless: RequestListener = (_request, response) => {
    response.writeHead(500);
    const more = () => {
      while (!response.destroyed && response.write(chunk));
      if (!response.destroyed) response.once('drain', more);
    };
    more();
  };
  const heads: RequestListener = (_request, response) => {
    const socket = response.socket;
    if (!socket) return;
    socket.on('error', () => {});
    socket.write('HTTP/1.1 200 OK\r\n');
    const more = () => {
      while (!socket.destroyed && socket.write(`x-${'y'.repeat(60_000)}: z\r\n`));
      if (!socket.destroyed) socket.once('drain', more);
    };
    more();
  };
  const endpoints = await Promise.all([endless, heads].map(startEndpoint));
  try {
    const results: Json[] = [];
    const growth = await growthDuring(product, 'management', async () => {
      const tests = Array.from({ length: 6 }, (_, n) => tested(product, endpoints[n % 2]?.url ?? ''));
      results.push(...(await Promise.all(tests)));
    });
    expect(growth).toBeLessThan(128 * 2 ** 20);
    for (const { ok, message } of results) {
      expect(ok).toBe(false);
      expect(String(message).length).toBeLessThan(400);
      expect(String(message)).not.toMatch(/[\p{Cc}\p{Cf}]/u);
    }
  } finally {
    for (const endpoint of endpoints) endpoint.close();
  }
}

async function notHttp({ product }: Scene): Promise<void> {
  const answers: readonly ((socket: Socket) => void)[] = [
    (socket) => socket.end('SSH-2.0-OpenSSH_9.2\r\n'),
    (socket) => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 7\r\n\r\nhello'),
    (socket) => socket.end('HTTP/1.1 99999 ?\r\n\r\n'),
    (socket) => socket.end(Buffer.alloc(10_000, 0xff)),
    (socket) => socket.resetAndDestroy(),
    (socket) => socket.end(),
    (socket) => socket.end('HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nx'),
  ];
  for (const answer of answers) {
    const server = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => answer(socket));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    try {
      const result = await tested(product, `http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
      expect([String(answer), result.ok]).toEqual([String(answer), false]);
    } finally {
      server.close();
    }
  }
}

async function tenants({ product, tenant }: Scene): Promise<void> {
  const mine = await tenant();
  const endpoint = await startEndpoint((_request, response) => void response.end());
  try {
    const { body: hook } = await create(product, endpoint.url);
    const path = `/api/v1/webhooks/${hook.id}`;
    const calls: readonly [string, string, unknown?][] = [
      ['POST', '/api/v1/webhooks', { name: 'mine', url: endpoint.url }],
      ['GET', '/api/v1/webhooks'],
      ['GET', path],
      ['PATCH', path, { url: endpoint.url }],
      ['POST', `${path}/test`],
      ['POST', `${path}/rotate`, {}],
      ['GET', `${path}/deliveries`],
      ['DELETE', path],
    ];
    for (const [method, at, body] of calls) {
      const answer = await manage(product, method, at, {
        key: mine.key,
        ...(body !== undefined && { body }),
      });
      expect([at, codeOf(answer)]).toEqual([at, '403 insufficient_scope']);
      expect(JSON.stringify(answer.body)).not.toContain(String(endpoint.port));
    }
    expect(endpoint.count()).toBe(0);
    await operate(product, 'DELETE', path);
  } finally {
    endpoint.close();
  }
}

async function secrets({ product }: Scene): Promise<void> {
  const endpoint = await startEndpoint((_request, response) => void response.writeHead(500).end('no'));
  try {
    const url = `${endpoint.url}/services/T0/secret-of-the-path`;
    const routingKey = 'R0123456789canary';
    const { body: plain } = await create(product, url);
    const { body: pager } = await create(product, url, { format: 'pagerduty', routing_key: routingKey });
    const secret = String(plain.secret);
    expect(secret).toMatch(/^whsec_/);
    await operate(product, 'POST', `/api/v1/webhooks/${plain.id}/test`);
    const shown: unknown[] = [];
    for (const id of [plain.id, pager.id]) {
      shown.push(await operate(product, 'GET', `/api/v1/webhooks/${id}`));
      shown.push(await operate(product, 'PATCH', `/api/v1/webhooks/${id}`, { enabled: false }));
      shown.push(await operate(product, 'GET', `/api/v1/webhooks/${id}/deliveries`));
      shown.push(await operate(product, 'GET', `/api/v1/audit?resource_id=${id}`));
      shown.push(await operate(product, 'DELETE', `/api/v1/webhooks/${id}`));
    }
    shown.push(await operate(product, 'GET', '/api/v1/webhooks?page_size=500'));
    const text = JSON.stringify(shown);
    for (const one of [secret, secret.slice(6), routingKey]) expect(text).not.toContain(one);
    // The path of a chat's webhook URL is itself a secret.
    await eventually(() =>
      expect(product.output()).not.toMatch(/secret-of-the-path|whsec_|0123456789canary/),
    );
  } finally {
    endpoint.close();
  }
}
