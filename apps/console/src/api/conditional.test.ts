import { expect, it } from 'vitest';
import { conditional } from './conditional.ts';

/** A service that counts its versions, and what it was asked. */
function newService() {
  const asked: (string | null)[] = [];
  let [version, session] = [1, 'one'];
  const send = conditional(
    async (request) => {
      const etag = `W/"${version}"`;
      const named = request.headers.get('if-none-match');
      asked.push(named);
      if (named === etag) return new Response(null, { status: 304 });
      return new Response(`version ${version}`, { headers: { etag } });
    },
    () => session,
  );
  const get = async (path = '/a') => (await send(new Request(`http://x${path}`))).text();
  return {
    asked,
    get,
    send,
    change: () => {
      version += 1;
    },
    signInAgain: () => {
      session += '!';
    },
  };
}

it('repeats an answer until the service has another one', async () => {
  const { get, change, asked } = newService();
  expect([await get(), await get(), await get()]).toEqual(['version 1', 'version 1', 'version 1']);
  change();
  expect([await get(), await get()]).toEqual(['version 2', 'version 2']);
  expect(asked).toEqual([null, 'W/"1"', 'W/"1"', 'W/"1"', 'W/"2"']);
});

it('names no answer of another session, of another address, or to a change', async () => {
  const { get, signInAgain, send, asked } = newService();
  await get();
  signInAgain();
  await get();
  await get('/b');
  await send(new Request('http://x/a', { method: 'POST' }));
  expect(asked).toEqual([null, null, null, null]);
});

it('keeps the newest hundred', async () => {
  const { get, asked } = newService();
  for (let n = 0; n < 101; n++) await get(`/${n}`);
  await get('/0');
  await get('/100');
  expect(asked.slice(-2)).toEqual([null, 'W/"1"']);
});

it.each([
  ['a failure', new Response('', { status: 503, headers: { etag: 'W/"1"' } })],
  ['an answer without an ETag', new Response('')],
  ['an answer whose ETag is of less than all', new Response('', { headers: { etag: '"1"' } })],
])('does not keep %s', async (_what, response) => {
  const asked: (string | null)[] = [];
  const send = conditional(
    async (request) => {
      asked.push(request.headers.get('if-none-match'));
      return response.clone();
    },
    () => '',
  );
  await send(new Request('http://x/a'));
  await send(new Request('http://x/a'));
  expect(asked).toEqual([null, null]);
});
