import { METHODS } from 'node:http';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { expectCallsRefused } from './controlCalls.ts';
import { chat, type HostileCase, message, responses } from './hostileCase.ts';
import { dial, exchange, parsedAnswer, rawRequest } from './rawClient.ts';
import type { Scene, Tenant } from './scene.ts';

const JSON_TYPE = 'content-type: application/json';
const auth = ({ key, mark }: Tenant) => [`authorization: Bearer ${key}`, `x-mark: ${mark}`];

/** A generation request in bytes. With an Origin, or in chunks, it goes the general way. */
function generation(
  tenant: Tenant,
  body: object,
  headers: readonly string[] = [],
  path = '/v1/chat/completions',
): string {
  const text = JSON.stringify(body);
  const all = [...auth(tenant), JSON_TYPE, `content-length: ${text.length}`, ...headers];
  return rawRequest(`POST ${path}`, all, text);
}

const GENERAL = ['origin: https://page.example'];
const slow = ['x-mock-chunk-delay-ms: 100', 'x-mock-output-tokens: 600'];
const late = ['x-mock-delay-ms: 60000'];

/** No malformed request does harm: not to the answers of others, not to the ledger, not to the log. */
export const PROTOCOL: readonly HostileCase[] = [
  {
    row: 'a parser error while an answer is owed',
    title: 'nothing is written into a stream, and its attempt is client_gone',
    async run(scene) {
      for (const headers of [[], GENERAL]) {
        await expectCut(scene, chat('local/plain', { stream: true }), [...slow, ...headers], /data: /);
      }
    },
  },
  {
    row: 'a parser error while an answer is owed',
    title: 'nothing takes the place of a pending answer, and its attempt is client_gone',
    async run(scene) {
      for (const headers of [[], GENERAL]) await expectCut(scene, chat('local/plain'), [...late, ...headers]);
    },
  },
  {
    row: 'leaving during the upload',
    title: 'is no fault of the service, on any path',
    async run(scene) {
      const { product, tenant } = scene;
      const tried = await tenant();
      const before = product.output().length;
      const uploads: [string, string, readonly string[]][] = [
        [product.inferenceUrl, '/v1/chat/completions', auth(tried)],
        [product.inferenceUrl, '/v1/messages', [...auth(tried), ...GENERAL]],
        [product.inferenceUrl, '/v1/feedback', auth(tried)],
        [product.managementUrl, '/api/v1/keys', [`authorization: Bearer ${tried.key}`]],
      ];
      for (const [url, path, headers] of uploads) {
        for (const framing of ['content-length: 500', 'transfer-encoding: chunked']) {
          for (const leave of ['end', 'destroy'] as const) {
            const client = await dial(url);
            client.write(rawRequest(`POST ${path}`, [...headers, JSON_TYPE, framing], '5\r\n{"a":'));
            await new Promise((resolve) => setTimeout(resolve, 60));
            client[leave]();
            if (leave === 'end') await client.closes();
          }
        }
      }
      await new Promise((resolve) => setTimeout(resolve, 300));
      const lines = product.output().slice(before).split('\n');
      expect(
        lines.filter((line) => /"outcome":"fault"|aborted|caller_left.*"level":[56]0/.test(line)),
      ).toEqual([]);
    },
  },
  {
    row: 'the head of a request',
    title: 'is refused where two readers would disagree, in the envelope of the dialect',
    async run(scene) {
      const tried = await scene.tenant();
      const body = JSON.stringify(chat('local/plain'));
      const length = `content-length: ${body.length}`;
      const many = Array.from({ length: 2_100 }, () => 'a: b');
      const heads: [string, readonly string[], string, number, string][] = [
        ['Expect', ['expect: nonsense', length], body, 417, 'expectation_failed'],
        ['headers', [...many, length], body, 431, 'headers_too_large'],
        ['hosts', ['host: y', length], body, 400, 'malformed_request'],
        ['gzip', ['transfer-encoding: gzip, chunked'], '0\r\n\r\n', 501, 'transfer_coding_not_supported'],
        ['a version', [length], body, 505, 'http_version_not_supported'],
        ['both', ['transfer-encoding: chunked', length], '0\r\n\r\n', 400, 'malformed_request'],
      ];
      for (const [what, headers, rest, status, code] of heads) {
        for (const path of ['/v1/chat/completions', '/v1/messages', '/api/v1/keys']) {
          const { inferenceUrl, managementUrl } = scene.product;
          const url = path.startsWith('/api') ? managementUrl : inferenceUrl;
          // The credential comes last: it must not be found missing.
          const sent = rawRequest(`POST ${path}`, [JSON_TYPE, ...headers, ...auth(tried)], rest).replace(
            'HTTP/1.1',
            what === 'a version' ? 'HTTP/2.0' : 'HTTP/1.1',
          );
          const answer = parsedAnswer(await exchange(url, sent, false));
          expect([what, path, answer.status, answer.code]).toEqual([what, path, status, code]);
          // A request that the parser itself refuses has no path yet.
          if (what !== 'both') expect(answer.json.type).toBe(path === '/v1/messages' ? 'error' : undefined);
        }
      }
    },
  },
  {
    row: 'the head of a request',
    title: 'may be 64 KiB large, and a half-closed client is answered and recorded',
    async run({ product, tenant }) {
      for (const headers of [[], GENERAL]) {
        const tried = await tenant();
        const large = `x-svc-user: ${'u'.repeat(64 * 1024)}`;
        const text = await exchange(
          product.inferenceUrl,
          generation(tried, chat('local/plain'), [large, 'x-mock-delay-ms: 300', ...headers]),
        );
        expect(parsedAnswer(text).status).toBe(200);
        expect(await outcomes(tried)).toEqual(['success']);
      }
    },
  },
  {
    row: 'slow clients',
    title:
      'have the time of the settings for a head and a body; who opened a connection in advance is served',
    async run({ product, tenant }) {
      const tried = await tenant();
      for (const url of new Set([product.inferenceUrl, product.managementUrl])) {
        const [body, half, early] = [await dial(url), await dial(url), await dial(url)];
        const path = url === product.inferenceUrl ? '/v1/chat/completions' : '/api/v1/keys';
        body.write(rawRequest(`POST ${path}`, [...auth(tried), JSON_TYPE, 'content-length: 60000'], '{'));
        half.write('POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauth');
        const text = await half.closes();
        // Its time is less than that of a body, and by default more.
        expect(body.isClosed).toBe(false);
        body.destroy();
        const { status, code } = parsedAnswer(text);
        expect([status, code]).toEqual([408, 'request_timeout']);
        early.write('GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n');
        expect(parsedAnswer(await early.closes()).status).toBe(200);
      }
      for (const headers of [[], GENERAL]) {
        const [client, witness] = [await dial(product.inferenceUrl), await dial(product.inferenceUrl)];
        const framed = [...auth(tried), JSON_TYPE, 'content-length: 100000', ...headers];
        client.write(rawRequest('POST /v1/messages', framed));
        const drip = setInterval(() => client.write('x'), 50);
        // After the time of the settings, and before the default time of a body.
        witness.write(generation(tried, chat('local/plain'), ['x-mock-delay-ms: 15000']));
        const text = await client.closes().finally(() => clearInterval(drip));
        expect(witness.text).toBe('');
        witness.destroy();
        expect(parsedAnswer(text)).toMatchObject({ status: 408, json: { type: 'error' } });
      }
    },
  },
  {
    row: 'bodies of the control plane',
    title: 'with invalid UTF-8, or a field twice at any depth, are refused and not stored',
    async run({ product, tenant }) {
      const tried = await tenant();
      const send = async (body: Buffer) => {
        const headers = [`authorization: Bearer ${tried.key}`, JSON_TYPE, `content-length: ${body.length}`];
        const head = Buffer.from(rawRequest('POST /api/v1/keys', headers));
        return parsedAnswer(await exchange(product.managementUrl, Buffer.concat([head, body])));
      };
      const keys = async () =>
        ((await manage(product, 'GET', '/api/v1/keys', { key: tried.key })).body.data as unknown[]).length;
      const before = await keys();
      for (const bytes of [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xe2, 0x82]]) {
        const { status, code } = await send(
          Buffer.concat([Buffer.from('{"name":"a'), Buffer.from(bytes), Buffer.from('"}')]),
        );
        expect([bytes, status, code]).toEqual([bytes, 400, 'malformed_json']);
      }
      for (const [body, param] of [
        ['{"name":"a","name":"b"}', 'name'],
        ['{"name":"a","attribution":{"team":"x","team":"y"}}', 'attribution.team'],
        ['{"name":"a","attribution":{"labels":{"k":"1","\\u006b":"2"}}}', 'attribution.labels.k'],
      ] as const) {
        const answer = await send(Buffer.from(body));
        const { param: named } = (answer.json.error ?? {}) as { param?: string };
        expect([answer.status, answer.code, named]).toEqual([400, 'duplicate_field', param]);
      }
      expect(await keys()).toBe(before);
    },
  },
  {
    row: 'methods that no route has',
    title: 'are 405 with Allow, whatever the method and the path',
    run: expectMethodsRefused,
  },
  {
    row: '100 Continue',
    title: 'goes out only after key, length and route were checked',
    run: expectContinueChecked,
  },
  {
    row: 'gRPC calls without the token',
    title: 'are refused before their message is decoded, and write no line each',
    run: expectCallsRefused,
  },
  {
    row: 'a request from a page and from a program',
    title: 'give the same answer to the same hostile request',
    run: expectSameAnswers,
  },
];

/** How the attempts of a tenant ended, once the ledger has a request. */
async function outcomes(tenant: Tenant): Promise<string[]> {
  const rows = (await tenant.rows()) as unknown as { attempts: { outcome: string }[] }[];
  return rows.flatMap(({ attempts }) => attempts.map(({ outcome }) => outcome));
}

/** Sends garbage, or half a head and its end, behind a request whose answer is under way or owed. */
async function expectCut(
  { product, tenant, vendors }: Scene,
  body: object,
  headers: readonly string[],
  begun?: RegExp,
): Promise<void> {
  for (const after of ['nonsense\r\n\r\n', 'GET /half HTTP/1.1\r\nhos']) {
    const tried = await tenant();
    const client = await dial(product.inferenceUrl);
    client.write(generation(tried, body, headers));
    if (begun) await client.reads(begun);
    else await hasReached(vendors, tried);
    client.write(after);
    if (after.endsWith('hos')) client.end();
    const text = await client.closes();
    expect(text.match(/HTTP\/1\.1 /g)?.length ?? 0).toBe(begun ? 1 : 0);
    expect(text).not.toContain('malformed');
    expect([after, await outcomes(tried)]).toEqual([after, ['client_gone']]);
  }
}

/** Resolves once a vendor has a request of this tenant. */
async function hasReached(vendors: Scene['vendors'], { mark }: Tenant): Promise<void> {
  await eventually(async () => {
    const requests = vendors.flatMap((vendor) => vendor.requests);
    if (!requests.some(({ headers }) => headers['x-mark'] === mark))
      throw new Error('no vendor has the request');
  });
}

async function expectMethodsRefused({ product, tenant }: Scene): Promise<void> {
  const tried = await tenant();
  const routes: [string, string][] = [
    ...[
      '/healthz',
      '/readyz',
      '/v1/chat/completions',
      '/v1/messages',
      '/v1/models',
      '/v1/responses/resp_1',
    ].map((path): [string, string] => [product.inferenceUrl, path]),
    ...['/healthz', '/api/v1/keys', '/api/v1/openapi.json', '/api/v1/usage', '/docs'].map(
      (path): [string, string] => [product.managementUrl, path],
    ),
  ];
  const ask = async (url: string, line: string) =>
    parsedAnswer(await exchange(url, rawRequest(line, [...auth(tried), 'content-length: 0'])));
  if ((await ask(product.managementUrl, 'GET /metrics')).status === 200)
    routes.push([product.managementUrl, '/metrics']);
  const odd = METHODS.filter((method) => !/^(GET|HEAD|POST|PATCH|DELETE|OPTIONS|CONNECT)$/.test(method));
  for (const [url, path] of routes) {
    for (const method of [...odd, ...(path === '/metrics' || path === '/healthz' ? ['POST'] : [])]) {
      const { status, code, headers } = await ask(url, `${method} ${path}`);
      expect([method, path, status, code]).toEqual([method, path, 405, 'method_not_allowed']);
      expect(headers.get('allow')).toMatch(/^(GET|POST)/);
    }
  }
  expect((await ask(product.inferenceUrl, 'PROPFIND /v1/nowhere')).status).toBe(404);
  for (const url of [product.inferenceUrl, product.managementUrl]) {
    expect((await ask(url, 'OPTIONS *')).status).toBe(204);
  }
}

async function expectContinueChecked({ product, tenant }: Scene): Promise<void> {
  const tried = await tenant();
  const [inference, management] = [product.inferenceUrl, product.managementUrl];
  const ask = async (url: string, line: string, headers: readonly string[]) => {
    const client = await dial(url);
    client.write(rawRequest(line, ['expect: 100-continue', ...headers]));
    const text = await client.reads(/\r\n\r\n/);
    client.destroy();
    return Number(text.slice(9, 12));
  };
  const sized = (length: number, type = JSON_TYPE) => [type, `content-length: ${length}`];
  const refused: [string, string, readonly string[], number][] = [];
  for (const path of [
    '/v1/chat/completions',
    '/v1/messages',
    '/v1/feedback',
    '/v1/responses/resp_1/cancel',
  ]) {
    refused.push([inference, `POST ${path}`, sized(10), 401]);
    refused.push([inference, `PUT ${path}`, [...auth(tried), ...sized(10)], 405]);
  }
  refused.push(
    [inference, 'POST /v1/chat/completions', [...auth(tried), ...sized(100_000_000)], 413],
    [inference, 'POST /v1/chat/completions', [...auth(tried), ...sized(10, 'content-type: text/plain')], 415],
    [inference, 'POST /v1/nowhere', [...auth(tried), ...sized(10)], 404],
    [management, 'POST /api/v1/keys', sized(10), 401],
    [management, 'PATCH /api/v1/keys/key_1', sized(10), 401],
    [management, 'DELETE /api/v1/keys/key_1', sized(10), 401],
    [management, 'POST /api/v1/policies', [...auth(tried), ...sized(10)], 403],
    [management, 'POST /api/v1/keys', [...auth(tried), ...sized(100_000)], 413],
    [management, 'POST /api/v1/nowhere', [...auth(tried), ...sized(10)], 404],
    [management, 'PUT /api/v1/keys', [...auth(tried), ...sized(10)], 405],
  );
  for (const [url, line, headers, status] of refused) {
    expect([line, await ask(url, line, headers)]).toEqual([line, status]);
  }
  expect(await ask(inference, 'POST /v1/chat/completions', [...auth(tried), ...sized(10)])).toBe(100);
  expect(await ask(management, 'POST /api/v1/keys', [...auth(tried), ...sized(10)])).toBe(100);
}

/** The general path is taken for a body in chunks and for a page's request. */
async function expectSameAnswers({ product, tenant }: Scene): Promise<void> {
  const tried = await tenant();
  const mine = auth(tried);
  const bodies: [string, string, readonly string[], string][] = [
    ['no key', '/v1/chat/completions', [], JSON.stringify(chat('local/plain'))],
    ['a bad key', '/v1/messages', ['authorization: Bearer sk-svc-x'], JSON.stringify(message())],
    ['no JSON', '/v1/chat/completions', mine, '{"model":'],
    ['nothing', '/v1/responses', mine, ''],
    ['a list', '/v1/messages', mine, '[]'],
    ['bytes', '/v1/chat/completions', mine, '{"model":"local/plain\xff"}'],
    ['twice', '/v1/chat/completions', mine, '{"model":"local/plain","model":"local/plain"}'],
    ['another case', '/v1/chat/completions', mine, '{"Model":"local/plain","model":"local/plain"}'],
    ['unknown', '/v1/responses', mine, JSON.stringify({ ...responses(), model: 'openai/none' })],
    ['another type', '/v1/chat/completions', [...mine, 'content-type: text/plain'], '{}'],
    ['an expectation', '/v1/messages', [...mine, 'expect: nonsense'], '{}'],
    ['two hosts', '/v1/messages', [...mine, 'host: y'], '{}'],
  ];
  for (const [what, path, headers, body] of bodies) {
    const typed = headers.some((header) => header.startsWith('content-type'))
      ? headers
      : [...headers, JSON_TYPE];
    const ask = async (more: readonly string[], sent: string) => {
      const bytes = Buffer.from(rawRequest(`POST ${path}`, [...typed, ...more], sent), 'latin1');
      const { status, headers: got, json } = parsedAnswer(await exchange(product.inferenceUrl, bytes));
      const kept = [...got].filter(
        ([name]) =>
          !/^(date|x-request-id|request-id|x-svc-overhead-ms|content-length|connection|keep-alive|vary)$/.test(
            name,
          ),
      );
      return { status, headers: Object.fromEntries(kept), body: withoutId(json) };
    };
    const length = `content-length: ${body.length}`;
    const fast = await ask([length], body);
    expect([what, await ask([length, ...GENERAL], body)]).toEqual([what, fast]);
    const chunks = body === '' ? '0\r\n\r\n' : `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
    expect([what, 'in chunks', await ask(['transfer-encoding: chunked'], chunks)]).toEqual([
      what,
      'in chunks',
      fast,
    ]);
  }
}

function withoutId(json: Record<string, unknown>): unknown {
  return JSON.parse(JSON.stringify(json).replaceAll(/req_[0-9a-z]+/g, 'req_'));
}
