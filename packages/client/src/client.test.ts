import { describe, expect, it } from 'vitest';
import { bodyOf, createClient } from './client.ts';
import { allItems, pages } from './paging.ts';

/** A client whose service is this function. */
function clientOf(serve: (request: Request) => Response | Promise<Response>) {
  return createClient({
    baseUrl: 'http://gateway.test/',
    apiKey: 'sk-svc-secret',
    fetch: async (request) => serve(request),
  });
}

const readKey = (client: ReturnType<typeof clientOf>, key_id = 'key_1') =>
  bodyOf(client.GET('/api/v1/keys/{key_id}', { params: { path: { key_id } } }));

describe('a call', () => {
  it('sends the key, and encodes each path parameter as one segment', async () => {
    const client = clientOf((request) =>
      Response.json({ id: `${request.url} ${request.headers.get('authorization')}` }),
    );
    const { id } = await readKey(client, '../../etc/x y');
    expect(id).toBe('http://gateway.test/api/v1/keys/..%2F..%2Fetc%2Fx%20y Bearer sk-svc-secret');
  });

  it('rejects with the error body of an error response', async () => {
    const error = {
      message: 'This key lacks the scope keys:read.',
      type: 'permission_error',
      code: 'insufficient_scope',
      param: null,
      request_id: 'req_1',
      required_scope: 'keys:read',
    };
    const client = clientOf(() => Response.json({ error }, { status: 403 }));
    await expect(readKey(client)).rejects.toMatchObject({
      name: 'ApiError',
      status: 403,
      code: 'insufficient_scope',
      message: error.message,
      request_id: 'req_1',
      param: null,
      details: { required_scope: 'keys:read' },
    });
  });

  it('rejects with the status of a response that is not from the service', async () => {
    const client = clientOf(() => new Response('<html>Bad gateway</html>', { status: 502 }));
    await expect(readKey(client)).rejects.toMatchObject({ status: 502, code: 'unknown_answer' });
  });

  it('rejects with the address, and never the key, if the service is unreachable', async () => {
    const client = clientOf(() => Promise.reject(new TypeError('fetch failed')));
    const error = await readKey(client).catch((reason) => reason);
    expect(error).toMatchObject({ status: 0, code: 'unreachable' });
    expect(error.message).toContain('http://gateway.test');
    expect(JSON.stringify([error, error.message])).not.toContain('sk-svc-secret');
  });

  it('rejects with another code after a time-out', async () => {
    const cause = Object.assign(new Error('Headers Timeout Error'), { code: 'UND_ERR_HEADERS_TIMEOUT' });
    const client = clientOf(() => Promise.reject(new TypeError('fetch failed', { cause })));
    const error = await readKey(client).catch((reason) => reason);
    expect(error).toMatchObject({ status: 0, code: 'no_answer_yet' });
    expect(error.message).toMatch(/^http:\/\/gateway\.test has not responded .* It may still complete/);
  });
});

describe('pages', () => {
  const numbers = async (token: string) => {
    const at = Number(token || 0);
    return { data: [at, at + 1], next_page_token: at < 4 ? String(at + 2) : '' };
  };

  it('are fetched one by one, when they are needed', async () => {
    const asked: string[] = [];
    const counted = async (token: string) => {
      asked.push(token);
      return await numbers(token);
    };
    for await (const data of pages(counted)) if (data.includes(3)) break;
    expect(asked).toEqual(['', '2']);
    expect(await allItems(numbers)).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it('end with an error if a page repeats', async () => {
    const circle = async () => ({ data: [1], next_page_token: 'same' });
    await expect(allItems(circle)).rejects.toThrow('twice');
  });
});
