import { request as sendRequest } from 'node:http';
import { expect, it } from 'vitest';
import { ROUTES } from '../src/server/routes.ts';
import { ALICE } from './proxy.ts';
import { startProxyForTest, useProxy, useVendor } from './useProxy.ts';

/* What every path answers, as a table that is read before it is changed: run with `--update` to write it. */

const vendor = useVendor();
const proxy = useProxy(vendor, { bodyLimitBytes: 1_000 });
const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'TRACE', 'OPTIONS', 'PROPFIND'];
const KEY = { authorization: `Bearer ${ALICE}` };

interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, unknown>>;
  readonly body: string;
}

/** Sends a path as it stands: `fetch` would resolve its dot segments, and send no TRACE. */
function ask(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>> = KEY,
  body = '{}',
  { url } = proxy,
): Promise<Answered> {
  const hasBody = !['GET', 'HEAD', 'TRACE', 'OPTIONS'].includes(method);
  return new Promise((resolve, reject) => {
    const length = hasBody && { 'content-length': body.length };
    const options = { method, path, headers: { 'content-type': 'application/json', ...length, ...headers } };
    const request = sendRequest(url, options, (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece) => {
        text += piece;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
    });
    request.on('error', reject);
    request.end(hasBody ? body : undefined);
  });
}

interface ErrorBody {
  readonly type?: string;
  readonly error?: {
    readonly code?: unknown;
    readonly status?: unknown;
    readonly details?: readonly { readonly metadata?: { readonly code?: string } }[];
  };
}

/** The dialect of an error, and its code. */
function errorOf({ body }: Answered): { dialect: string; code: string } {
  const { type, error } = (body === '' ? {} : JSON.parse(body)) as ErrorBody;
  if (error?.status !== undefined)
    return { dialect: 'gemini', code: error.details?.[0]?.metadata?.code ?? '' };
  return { dialect: type === 'error' ? 'anthropic' : 'openai', code: String(error?.code ?? '') };
}

/** The status of an answer, the code of its error, and headers that depend on the route. */
function shown(answer: Answered): string {
  const { dialect, code } = errorOf(answer);
  const { allow, upgrade } = answer.headers;
  const names = ['accept-encoding', 'vary', 'access-control-allow-origin', 'access-control-allow-headers'];
  const others = names.flatMap((name) => {
    const value = answer.headers[name];
    return value === undefined ? [] : [`${name}: ${String(value).slice(0, 40)}`];
  });
  return [
    answer.status,
    ...(code ? [code, `(${dialect})`] : []),
    ...(allow === undefined ? [] : [`allow: ${allow}`]),
    ...(upgrade === undefined ? [] : [`upgrade: ${upgrade}`]),
    ...others,
  ].join(' ');
}

async function table<Row>(rows: readonly Row[], line: (row: Row) => Promise<string>): Promise<string> {
  const lines: string[] = [];
  for (const row of rows) lines.push(await line(row));
  return `${lines.join('\n')}\n`;
}

it('every path answers each method as the table says, with a key and without', async () => {
  const paths = ROUTES.map(({ path }) => path.replace('{id}', 'resp_1').replace(/\{\w+\}/, 'mock/echo'));
  const unserved = [
    '/',
    '/metrics',
    '/v1',
    '/v1beta',
    '/openai',
    '/v1/files',
    '/v1/complete',
    '/v1/messages/batches',
  ];
  const text = await table([...new Set(paths), ...unserved], async (path) => {
    const answers = await Promise.all(METHODS.map((method) => ask(method, path)));
    const refused = answers[METHODS.indexOf('PUT')] as Answered;
    const keyless = await Promise.all(['GET', 'POST'].map((method) => ask(method, path, {})));
    const statuses = METHODS.map((method, at) => `${method} ${answers[at]?.status}`).join(', ');
    const without = keyless.map(({ status }) => status).join(' and ');
    const served = `${errorOf(refused).dialect}; allow: ${refused.headers.allow ?? 'nothing'}`;
    return `${path} (${served})\n  ${statuses}; without a key ${without}`;
  });
  await expect(text).toMatchFileSnapshot('goldens/paths.txt');
});

it('other spellings of a path are that path, or none', async () => {
  const spellings: readonly [method: string, path: string, headers?: Record<string, string>][] = [
    ['GET', '/v1/models/'],
    ['GET', '/v1/models//'],
    ['GET', '/v1//models'],
    ['GET', '//v1/models'],
    ['GET', '/V1/models'],
    ['GET', '/v1/./models'],
    ['GET', '/v1/files/../models'],
    ['GET', '/v1/models?limit=0', { ...KEY, 'anthropic-version': '2023-06-01' }],
    ['GET', '/v1/models?limit=1&limit=2', { ...KEY, 'anthropic-version': '2023-06-01' }],
    ['GET', '/v1/models?limit=%31', { ...KEY, 'anthropic-version': '2023-06-01' }],
    ['GET', '/v1/models?limit=%zz', { ...KEY, 'anthropic-version': '2023-06-01' }],
    ['GET', '/v1/models/mock/echo'],
    ['GET', '/v1/models/mock%2Fecho'],
    ['GET', '/v1/models/mock%2fecho/'],
    ['GET', '/v1/models/%6Dock/echo'],
    ['GET', '/v1/models/mock%252Fecho'],
    ['GET', '/v1/models/%'],
    ['GET', '/v1/models/%zz'],
    ['GET', '/v1/models/%00'],
    ['GET', '/v1/models/%C3%A9'],
    ['GET', '/v1/models/veo-3/operations/abc'],
    ['GET', '/v1/model%73'],
    ['GET', '/v1%2Fmodels'],
    ['GET', `/v1/models/${'x'.repeat(100_000)}`],
    ['GET', '/v1beta/models/mock/echo', { 'x-goog-api-key': ALICE }],
    ['POST', '/v1beta/models/mock/echo:generateContent/', { 'x-goog-api-key': ALICE }],
    ['POST', '/v1beta/models/mock%2Fecho:generateContent?alt=xml', { 'x-goog-api-key': ALICE }],
    ['POST', `/v1beta/models/nope:countTokens?key=${ALICE}`, {}],
    ['POST', '/v1beta/models/mock/echo%3AgenerateContent'],
    ['POST', '/v1beta/models/:generateContent'],
    ['POST', '/v1beta/models/mock/echo:predict'],
    ['POST', '/v1/models/mock/echo:predict'],
    ['POST', '/v1/models/mock/echo:batch:countTokens'],
    ['POST', '/v1/chat/completions/'],
    ['POST', '/v1/chat/completions//'],
    ['POST', '/v1/chat/completions/x'],
    ['POST', '/v1/chat%2Fcompletions'],
    ['POST', '/chat/completions'],
    ['POST', '/v1/v1/messages', { 'x-api-key': ALICE }],
    ['POST', 'http://elsewhere.example/v1/embeddings'],
    ['POST', '/openai/deployments/nope/chat/completions?api-version=2024-10-21', { 'api-key': ALICE }],
    ['POST', '/openai/deployments/no/pe/completions'],
    ['POST', '/openai/deployments/no%2Fpe/embeddings/'],
    ['POST', '/openai/deployments/nope'],
    ['GET', '/v1/responses/a%2Fb'],
    ['GET', '/v1/responses/a/b'],
    ['GET', '/v1/responses//input_items'],
    ['GET', '/v1/responses/compact'],
    ['DELETE', '/v1/responses/%zz'],
    ['POST', '/v1/responses/input_tokens/cancel'],
    ['GET', '*'],
  ];
  const text = await table(spellings, async ([method, path, headers = KEY]) => {
    const sent = Object.keys(headers).filter((name) => name !== 'authorization');
    const beside = sent.length > 0 ? ` (${sent.join(', ')})` : '';
    const where = path.replace(ALICE, 'KEY');
    const short = where.length > 100 ? `${where.slice(0, 20)}… (${where.length} characters)` : where;
    return `${method} ${short}${beside}: ${shown(await ask(method, path, headers))}`;
  });
  await expect(text).toMatchFileSnapshot('goldens/spellings.txt');
});

it('the head of a request decides before its body does', async () => {
  const open = await startProxyForTest({
    vendorUrl: vendor.url,
    bodyLimitBytes: 1_000,
    corsOrigins: ['https://app.example'],
  });
  const page = { origin: 'https://app.example' };
  const preflight = { ...page, 'access-control-request-headers': 'authorization' };
  const webSocket = { connection: 'Upgrade', upgrade: 'websocket' };
  const large = 'x'.repeat(1_001);
  const heads: readonly [line: string, headers: Record<string, string>, body?: string][] = [
    ['POST /v1/embeddings', {}],
    ['POST /v1/embeddings', { 'content-type': 'text/plain' }],
    ['POST /v1/embeddings', { ...KEY, 'content-type': 'text/plain' }],
    ['POST /v1/embeddings', { ...KEY, 'content-type': '' }],
    ['POST /v1/embeddings', { ...KEY, 'content-type': 'application/vnd.x+json; charset=utf-8' }],
    ['POST /v1/embeddings', { ...KEY, 'content-type': 'application/json,text/plain' }],
    ['POST /v1/embeddings', { ...KEY, 'content-encoding': 'compress' }],
    ['POST /v1/embeddings', { ...KEY, 'content-encoding': 'gzip' }],
    ['POST /v1/embeddings', { ...KEY, 'content-encoding': 'identity' }],
    ['POST /v1/embeddings', KEY, ''],
    ['POST /v1/embeddings', KEY, large],
    ['POST /v1/embeddings', { ...KEY, 'content-type': 'text/plain' }, large],
    ['POST /v1/embeddings', {}, large],
    ['POST /v1/embeddings', { ...KEY, expect: '100-continue' }],
    ['POST /v1/embeddings', { ...KEY, expect: 'much' }],
    ['POST /v1/messages', KEY, large],
    ['POST /v1beta/models/mock/echo:generateContent', KEY, large],
    ['POST /v1/feedback', KEY],
    ['POST /v1/feedback', KEY, large.repeat(17)],
    ['DELETE /v1/responses/resp_1', { ...KEY, 'content-type': 'text/plain' }],
    ['POST /v1/files', { 'content-type': 'text/plain' }, large],
    ['PUT /v1/embeddings', { 'content-type': 'text/plain' }, large],
    ['POST /v1/responses', webSocket],
    ['GET /v1/messages', webSocket],
    ['GET /nope', webSocket],
    ['GET /healthz', webSocket],
    ['GET /healthz', page],
    ['GET /nope', page],
    ['GET /nope', { origin: 'https://evil.example' }],
    ['GET /v1/models', { ...KEY, ...page }],
    ['POST /v1/embeddings', { ...KEY, ...page }],
    ['OPTIONS /v1/embeddings', preflight],
    ['OPTIONS /v1/responses/resp_1', {}],
    ['OPTIONS /nope', preflight],
    ['GET /v1/files', { 'anthropic-version': '2023-06-01' }],
    ['GET /v1/files', { 'x-goog-api-client': 'gl' }],
    ['GET /v1/models', { 'anthropic-version': '2023-06-01' }],
    ['GET /v1/models', { 'x-goog-api-key': 'none' }],
    ['GET /openai/models', { 'anthropic-version': '2023-06-01' }],
  ];
  const text = await table(heads, async ([line, headers, body]) => {
    const [method = '', path = ''] = line.split(' ');
    const sent = Object.entries(headers).map(([name, value]) =>
      name === 'authorization' ? 'with a key' : `${name}: ${value}`,
    );
    const size = body === undefined ? [] : [`${body.length} bytes`];
    const what = [...sent, ...size].join(', ') || 'nothing more';
    return `${line} (${what}): ${shown(await ask(method, path, headers, body, open))}`;
  });
  await expect(text).toMatchFileSnapshot('goldens/heads.txt');
});
