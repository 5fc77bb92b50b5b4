import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { chat, type HostileCase, message } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

/** What companies' proxies say of their users, and what no one knows. */
const IDENTITY = {
  'cf-access-jwt-assertion': 'eyJhbGciOi',
  'cf-access-authenticated-user-email': 'ada@example.com',
  'x-goog-iap-jwt-assertion': 'eyJhbGciOi',
  'x-amzn-oidc-data': 'eyJhbGciOi',
  'x-amzn-oidc-identity': 'ada',
  'x-auth-request-email': 'ada@example.com',
  'x-ms-client-principal-name': 'ada',
  'x-unheard-of': 'ada',
  referer: 'https://wiki.example.com/secret',
};
const ASKED = [
  ['openai', '/v1/chat/completions', chat('openai/plain')],
  ['anthropic', '/v1/messages', message()],
] as const;

/** What a vendor learns of clients, and clients of a vendor. */
export const VENDORS: readonly HostileCase[] = [
  {
    row: 'identity headers',
    title: 'never reach a vendor; what its SDKs send does',
    async run(scene) {
      const sent = {
        'user-agent': 'sdk/1',
        'x-stainless-lang': 'js',
        traceparent: `00-${'a'.repeat(32)}-${'b'.repeat(16)}-01`,
      };
      for (const [vendor, path, body] of ASKED) {
        const received = await headersAt(scene, vendor, path, body, { ...IDENTITY, ...sent });
        expect(Object.keys(IDENTITY).filter((name) => name in received)).toEqual([]);
        expect(Object.keys(sent).filter((name) => !(name in received))).toEqual([]);
      }
    },
  },
  {
    row: 'content-type',
    title: "goes out as the service's own",
    async run(scene) {
      const type = 'application/json; charset=utf-7; boundary=ada';
      for (const [vendor, path, body] of ASKED) {
        const received = await headersAt(scene, vendor, path, body, { 'content-type': type });
        expect(received['content-type']).toBe('application/json');
      }
    },
  },
  {
    row: "a vendor's 401 and 403 for our credential",
    title: 'are 502 connector_unauthorized, without the words of the vendor; the operator has an alert',
    async run(scene) {
      const refusing = await startRefusing();
      try {
        const provider = await connectTo(scene, refusing.url);
        const mine = await scene.tenant();
        for (const [status, body] of REFUSALS) {
          refusing.reply = { status, body };
          for (const [path, asked] of [
            ['/v1/chat/completions', chat(`${provider}/plain`)],
            ['/v1/chat/completions', chat(`${provider}/plain`, { stream: true })],
          ] as const) {
            const answer = await mine.ask(path, asked);
            expect([answer.status, answer.code]).toEqual([502, 'connector_unauthorized']);
            expect(answer.text).not.toMatch(/sk-|org-ours|permission_error/);
          }
        }
        refusing.reply = { status: 403, body: FLAGGED };
        const flagged = await mine.ask('/v1/chat/completions', chat(`${provider}/plain`));
        expect([flagged.status, flagged.text]).toEqual([403, FLAGGED]);
        expect(await mine.charged(2 * REFUSALS.length + 1)).toBe(0);
      } finally {
        await refusing.close();
      }
    },
  },
  {
    row: 'a credential by reference',
    title: 'goes only to the hosts that the deployment lists for it, whatever an operator does',
    async run({ product }) {
      const taken: unknown[] = [];
      const spy = createServer((request, response) => {
        taken.push(request.headers.authorization);
        response.end('{"data":[]}');
      });
      await new Promise<void>((resolve) => spy.listen(0, '127.0.0.1', resolve));
      try {
        const elsewhere = `http://127.0.0.1:${(spy.address() as AddressInfo).port}/v1`;
        const made = async (fields: object) => {
          const body = { name: `spy-${++providers}`, provider: 'groq', enabled: false, ...fields };
          const answer = await manage(product, 'POST', '/api/v1/connectors', { body });
          if (answer.status === 201)
            await manage(product, 'POST', `/api/v1/connectors/${answer.body.id}/test`, {});
          return answer;
        };
        const statuses = [];
        for (const ref of ['env:BOUND_KEY', 'env:UNLISTED_KEY', 'env:OPENAI_API_KEY']) {
          statuses.push((await made({ credential_ref: ref, base_url: elsewhere })).status);
        }
        const path = `/api/v1/connectors/${(await made({ base_url: elsewhere })).body.id}`;
        const moves = [{ credential_ref: 'env:BOUND_KEY' }, { credential_ref: 'env:UNLISTED_KEY' }];
        for (const body of moves) {
          statuses.push((await manage(product, 'PATCH', path, { body })).status);
          await manage(product, 'POST', `${path}/test`, {});
        }
        expect([statuses, taken.filter(Boolean)]).toEqual([statuses.map(() => 422), []]);
      } finally {
        spy.closeAllConnections();
        spy.close();
      }
    },
  },
];

const HINT = 'Incorrect API key provided: sk-proj-***abcd of org-ours.';
const REFUSALS = [
  [401, JSON.stringify({ error: { message: HINT, type: 'invalid_request_error', code: 'invalid_api_key' } })],
  [403, JSON.stringify({ type: 'error', error: { type: 'permission_error', message: HINT } })],
  [403, `<html>${HINT}</html>`],
] as const;
const FLAGGED = JSON.stringify({ error: { message: 'flagged', code: 'content_policy_violation' } });

/** A vendor that gives every request the same reply. */
async function startRefusing() {
  const refusing = { url: '', reply: { status: 401, body: '' }, close: async () => {} };
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(refusing.reply.status, { 'content-type': 'application/json' });
    response.end(refusing.reply.body);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  refusing.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  refusing.close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return refusing;
}

let providers = 0;

/** Makes a connector with its own provider; resolves with the provider once its model can be used. */
async function connectTo({ product, tenant }: Scene, baseUrl: string): Promise<string> {
  const provider = `refusing${++providers}`;
  await operate(product, 'POST', '/api/v1/connectors', {
    name: provider,
    provider,
    dialect: 'openai',
    base_url: baseUrl,
    credential: 'sk-refused-0123456789',
    priority: 1_000,
  });
  const price = { currency_code: 'USD', units: 1, nanos: 0 };
  await operate(product, 'PUT', `/api/v1/catalog/models/${provider}%2Fplain`, {
    context_window: 1_000,
    price: { input_price: price, output_price: price },
  });
  const tried = await tenant();
  await eventually(
    async () => {
      const { status } = await tried.ask('/v1/chat/completions', chat(`${provider}/plain`));
      if (status === 404) throw new Error('the proxy does not know the model yet');
    },
    { intervalMs: 50 },
  );
  return provider;
}

/** The headers of a request that reach the vendor. */
async function headersAt(
  { vendor, tenant }: Scene,
  name: 'openai' | 'anthropic',
  path: string,
  body: object,
  headers: Record<string, string>,
) {
  const tried = await tenant();
  const { status } = await tried.ask(path, body, { headers });
  const received = vendor(name).requests.find((one) => one.headers['x-mark'] === tried.mark);
  expect([status, received]).toEqual([200, expect.anything()]);
  return received?.headers ?? {};
}
