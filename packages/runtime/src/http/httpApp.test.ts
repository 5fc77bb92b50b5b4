import { Readable } from 'node:stream';
import { AppError } from '@weighbridge/errors';
import type { InjectOptions } from 'fastify';
import { pino } from 'pino';
import { describe, expect, it } from 'vitest';
import { acceptJsonBodies, createHttpApp, refuseOtherMethods } from './httpApp.ts';

it('says at /readyz what does not work while it serves requests', async () => {
  const state: { notReady?: string; degraded?: string } = {};
  const http = createHttpApp({
    logger: pino({ level: 'silent' }),
    bodyLimitBytes: 100,
    notReady: () => state.notReady,
    degraded: () => state.degraded,
  });
  const ready = async () => {
    const response = await http.inject('/readyz');
    return [response.statusCode, response.json()];
  };
  expect(await ready()).toEqual([200, { status: 'ready' }]);
  state.degraded = 'no archive';
  expect(await ready()).toEqual([200, { status: 'ready', degraded: 'no archive' }]);
  state.notReady = 'no database';
  expect(await ready()).toEqual([503, { status: 'not ready', reason: 'no database' }]);
});

async function app() {
  const lines: string[] = [];
  const logger = pino({ level: 'error' }, { write: (line) => lines.push(line) });
  const http = createHttpApp({ logger, bodyLimitBytes: 100, notReady: () => undefined });
  acceptJsonBodies(http);
  http.register(
    async (api) => {
      const others = refuseOtherMethods(api);
      const body = {
        type: 'object',
        properties: {
          name: { type: 'string' },
          on: { type: 'boolean' },
          size: { type: 'string', enum: ['small', 'large'] },
          step: { type: 'integer', not: { const: 0 } },
        },
        required: ['name'],
        additionalProperties: false,
      };
      api.post('/things', { schema: { body } }, async (request) => ({ got: request.body }));
      api.get('/things', async () => ({ all: [] }));
      api.delete('/perhaps', async ({ body: got }) => ({ got: got ?? null }));
      const config = { bodyIsOptional: true };
      api.post('/perhaps', { config, schema: { body: {} } }, async ({ body: got }) => ({ got: got ?? null }));
      api.get(
        '/known',
        { schema: { querystring: { type: 'object', additionalProperties: false } } },
        async () => ({}),
      );
      api.get('/teapot', async () => {
        throw Object.assign(new Error('inner words'), { code: 'FST_ERR_OF_TOMORROW', statusCode: 418 });
      });
      api.get('/broken', async () => {
        throw new Error('the password is hunter2');
      });
      api.get('/refused', async () => {
        throw new AppError('quota', 'budget_exhausted', 'Spent.', { details: { reset: null } });
      });
      others.register();
    },
    { prefix: '/v0' },
  );
  await http.ready();
  return { http, lines };
}

const json = { 'content-type': 'application/json' };

describe('the HTTP application', () => {
  it.each<[string, InjectOptions, number, string]>([
    ['an unknown path', { url: '/nope' }, 404, 'route_not_found'],
    ['a wrong method', { method: 'PUT', url: '/v0/things' }, 405, 'method_not_allowed'],
    [
      'malformed JSON',
      { method: 'POST', url: '/v0/things', headers: json, payload: '{"name":' },
      400,
      'malformed_json',
    ],
    [
      'an empty body',
      { method: 'POST', url: '/v0/things', headers: json, payload: '' },
      400,
      'malformed_json',
    ],
    [
      'an unknown field',
      { method: 'POST', url: '/v0/things', headers: json, payload: '{"name":"a","x":1}' },
      400,
      'invalid_request',
    ],
    [
      'a missing field',
      { method: 'POST', url: '/v0/things', headers: json, payload: '{}' },
      400,
      'invalid_request',
    ],
    [
      'a value that would need coercion',
      { method: 'POST', url: '/v0/things', headers: json, payload: '{"name":"a","on":"false"}' },
      400,
      'invalid_request',
    ],
    [
      'another type of body',
      { method: 'POST', url: '/v0/things', headers: { 'content-type': 'text/plain' }, payload: 'x' },
      415,
      'unsupported_media_type',
    ],
    [
      'a body over the limit',
      { method: 'POST', url: '/v0/things', headers: json, payload: `"${'x'.repeat(200)}"` },
      413,
      'body_too_large',
    ],
    ['an expected failure', { url: '/v0/refused' }, 429, 'budget_exhausted'],
    ['an unexpected failure', { url: '/v0/broken' }, 500, 'internal_error'],
  ])('answers %s with the one error body', async (_what, request, status, code) => {
    const { http } = await app();
    const response = await http.inject(request);
    expect(response.statusCode).toBe(status);
    expect(response.json()).toMatchObject({
      error: { code, message: expect.any(String), request_id: response.headers['x-request-id'] },
    });
  });

  it.each<[InjectOptions['method'], string, string, number]>([
    ['POST', '/nope', 'application/json', 404],
    ['POST', '/v0/nope', 'text/plain', 404],
    ['PATCH', '/v0/things', 'text/plain', 405],
    ['OPTIONS', '/v0/things', 'text/plain', 204],
    ['OPTIONS', '/healthz', 'application/json', 204],
    ['POST', '/v0/things', 'application/json', 413],
  ])('answers %s %s with a large body of %s before it reads the body', async (method, url, type, status) => {
    const { http } = await app();
    let isRead = false;
    const payload = new Readable({
      read() {
        isRead = true;
        this.push('x'.repeat(1_000));
      },
      highWaterMark: 1,
    });
    const headers = { 'content-type': type, 'content-length': '100000000' };
    const { statusCode } = await http.inject({ method: method as 'POST', url, headers, payload });
    expect([statusCode, isRead]).toEqual([status, false]);
  });

  it('logs internal details, and does not send them to the client', async () => {
    const { http, lines } = await app();
    const response = await http.inject('/v0/broken');
    expect(response.body).not.toContain('hunter2');
    expect(lines.join()).toContain('hunter2');
  });

  it('lists the methods of a path', async () => {
    const { http } = await app();
    const response = await http.inject({ method: 'DELETE', url: '/v0/things' });
    expect(response.headers.allow).toBe('GET, HEAD, POST');
    for (const [method, url] of [
      ['POST', '/healthz'],
      ['DELETE', '/readyz'],
      ['TRACE', '/healthz'],
      ['TRACE', '/v0/things'],
    ] as const) {
      // The types of `inject` lack TRACE.
      const { statusCode, headers } = await http.inject({ method: method as 'POST', url });
      expect([method, url, statusCode]).toEqual([method, url, 405]);
      expect(headers.allow).toMatch(/^GET, HEAD/);
    }
  });

  it.each(['x', 'application/json,text/plain', '+json', 'application/', '/json'])(
    'answers the content type "%s" with 415, and names the header',
    async (type) => {
      const { http } = await app();
      const headers = { 'content-type': type };
      const response = await http.inject({
        method: 'POST',
        url: '/v0/things',
        headers,
        payload: '{"name":"a"}',
      });
      expect([response.statusCode, response.json().error.param]).toEqual([415, 'content-type']);
    },
  );

  it('answers other client errors of the framework with a 4xx', async () => {
    const { http } = await app();
    const response = await http.inject('/v0/teapot');
    expect(response.statusCode).toBe(400);
    expect(response.body).not.toContain('inner words');
  });

  it('treats an empty body as none where the body is optional', async () => {
    const { http } = await app();
    for (const [method, url] of [
      ['DELETE', '/v0/perhaps'],
      ['POST', '/v0/perhaps'],
    ] as const) {
      const { statusCode, body } = await http.inject({ method, url, headers: json, payload: '' });
      expect([statusCode, body]).toEqual([200, '{"got":null}']);
    }
  });

  it('names the body limit, and tells parameters from fields', async () => {
    const { http } = await app();
    const payload = `"${'x'.repeat(200)}"`;
    const large = await http.inject({ method: 'POST', url: '/v0/things', headers: json, payload });
    expect(large.json().error.message).toContain('100 bytes');
    expect((await http.inject('/v0/known?x=1')).json().error).toMatchObject({
      param: 'x',
      message: 'x: is not a parameter of this request.',
    });
  });

  it('accepts bodies of application/json, of types that end in +json, and without a type', async () => {
    const { http } = await app();
    for (const headers of [
      json,
      { 'content-type': 'application/merge-patch+json; charset=utf-8' },
      { 'content-type': '' },
      { 'content-type': ' ' },
      {},
    ]) {
      const response = await http.inject({
        method: 'POST',
        url: '/v0/things',
        headers,
        payload: Buffer.from('{"name":"a"}'),
      });
      expect(response.json()).toEqual({ got: { name: 'a' } });
    }
  });

  it('ignores a trailing slash, mirrors GET as HEAD, and names an invalid field', async () => {
    const { http } = await app();
    expect((await http.inject('/v0/things/')).statusCode).toBe(200);
    expect((await http.inject({ method: 'HEAD', url: '/v0/things' })).statusCode).toBe(200);
    const response = await http.inject({
      method: 'POST',
      url: '/v0/things',
      headers: json,
      payload: '{"name":"a","x":1}',
    });
    expect(response.json().error).toMatchObject({
      param: 'x',
      message: expect.stringMatching(/^x: is not a field of this request\. There are name, /),
    });
  });

  it.each([
    [{ name: 'a', size: 'huge' }, 'size: must be one of small, large.'],
    [{ name: 'a', step: 0 }, 'step: is not an allowed value.'],
  ])('names the allowed values for %j', async (payload, message) => {
    const { http } = await app();
    const response = await http.inject({ method: 'POST', url: '/v0/things', payload });
    expect([response.statusCode, response.json().error.message]).toEqual([400, message]);
  });
});
