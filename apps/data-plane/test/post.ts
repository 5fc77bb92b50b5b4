import { ALICE, type TestProxy } from './proxy.ts';

const TEXT = 'Hello there, weighbridge';
export const HELLO = { model: 'mock/echo', messages: [{ role: 'user' as const, content: TEXT }] };
/** A request for each route that streams. */
export const HELLO_BY_ROUTE: [path: string, body: object][] = [
  ['/v1/chat/completions', HELLO],
  ['/v1/responses', { model: 'mock/echo', input: TEXT }],
  ['/v1/messages', { ...HELLO, max_tokens: 100_000 }],
];

/** Sends a POST with Alice's key. A body that is not an object is sent unchanged. */
export function post(
  { url }: Pick<TestProxy, 'url'>,
  path: string,
  body: object | string,
  headers: Record<string, string> = {},
  init: RequestInit = {},
): Promise<Response> {
  return fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${ALICE}`, 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' || body instanceof Uint8Array ? body : JSON.stringify(body),
    ...init,
  });
}
