import { expect } from 'vitest';
import { chat, type HostileCase, message } from './hostileCase.ts';
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
];

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
