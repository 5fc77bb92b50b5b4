import { create } from '@bufbuild/protobuf';
import {
  type RecordFeedbackRequest,
  RecordFeedbackRequestSchema,
  RecordFeedbackResponseSchema,
  RecordFeedbackResponse_Result as Result,
} from '@weighbridge/contracts';
import { newId } from '@weighbridge/domain';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { ALICE, RATED, startProxy, type TestProxy } from './proxy.ts';
import { connectTo, head } from './rawClient.ts';

let proxy: TestProxy;
let heard: RecordFeedbackRequest[] = [];
let result: Result | 'away' = Result.COUNTED;
beforeAll(async () => {
  proxy = await startProxy({
    vendorUrl: 'http://127.0.0.1:9',
    recordFeedback: async (feedback) => {
      heard.push(create(RecordFeedbackRequestSchema, feedback));
      if (result === 'away') throw new Error('no answer in time');
      return create(RecordFeedbackResponseSchema, { result });
    },
  });
});
afterAll(() => proxy?.close());
beforeEach(() => {
  heard = [];
  result = Result.COUNTED;
});

async function give(body: unknown, token: string | undefined = ALICE) {
  const answer = await fetch(`${proxy.url}/v1/feedback`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  return {
    status: answer.status,
    headers: answer.headers,
    body: (await answer.json()) as Record<string, unknown>,
  };
}

const said = { request_id: newId('req'), score: 0.5 };

describe('POST /v1/feedback', () => {
  it('passes feedback on, with any key', async () => {
    const answer = await give({ ...said, comment: 'so-so' });
    expect(answer).toMatchObject({ status: 200, body: { request_id: said.request_id, status: 'counted' } });
    expect(heard).toMatchObject([
      { requestId: said.request_id, principalId: 'alice', score: 0.5, comment: 'so-so' },
    ]);
    expect(heard[0]?.keyId).toMatch(/./);
  });

  it('refuses a body in chunks that grows beyond the limit, however it is cut', async () => {
    const text = JSON.stringify({ ...said, comment: 'x'.repeat(20_000) });
    const client = await connectTo(proxy.url);
    const keyed = { authorization: `Bearer ${ALICE}`, 'transfer-encoding': 'chunked' };
    const parts = [text.slice(0, 10_000), text.slice(10_000)];
    const chunks = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
    client.write(`${head('POST /v1/feedback', keyed)}${chunks.join('')}0\r\n\r\n`);
    expect(await client.reads(/\}$/)).toMatch(/^HTTP\/1.1 413 .*16384 bytes/s);
    expect(heard).toEqual([]);
  });

  it('responds with the result', async () => {
    result = Result.PENDING;
    expect(await give(said)).toMatchObject({ status: 202, body: { status: 'pending' } });
    result = Result.UNKNOWN;
    expect(await give(said)).toMatchObject({ status: 404, body: { error: { code: 'request_not_found' } } });
    result = Result.TOO_MANY;
    expect(await give(said)).toMatchObject({ status: 429, body: { error: { code: 'rate_limit_exceeded' } } });
    result = 'away';
    expect(await give(said)).toMatchObject({
      status: 503,
      body: { error: { code: 'control_plane_unreachable' } },
    });
  });

  it('needs a key', async () => {
    expect((await give(said, '')).status).toBe(401);
    expect(heard).toEqual([]);
  });

  it.each([
    ['no JSON', '{', 'malformed_json'],
    ['no object', '[]', 'malformed_json'],
    ['a field twice', `{"request_id":"req_1","score":1,"score":0}`, 'duplicate_field'],
    ['no request', { score: 1 }, 'invalid_request'],
    ['a request that is no text', { request_id: 7, score: 1 }, 'invalid_request'],
    ['no score', { request_id: 'req_1' }, 'invalid_request'],
    ['a score as text', { request_id: 'req_1', score: '1' }, 'invalid_request'],
    ['a score above 1', { request_id: 'req_1', score: 1.01 }, 'invalid_request'],
    ['a score below 0', { request_id: 'req_1', score: -0.1 }, 'invalid_request'],
    ['a comment that is too long', { ...said, comment: 'x'.repeat(1_001) }, 'invalid_request'],
    ['a comment that is no text', { ...said, comment: {} }, 'invalid_request'],
    ['an unknown field', { ...said, rating: 5 }, 'invalid_request'],
  ])('refuses %s', async (_, body, code) => {
    const answer = await give(body);
    expect(answer).toMatchObject({ status: 400, body: { error: { code } } });
    expect(heard).toEqual([]);
  });

  it('accepts only POST and a small body', async () => {
    expect((await give({ ...said, comment: 'x'.repeat(20_000) })).status).toBe(413);
    const other = await fetch(`${proxy.url}/v1/feedback`, { headers: { authorization: `Bearer ${ALICE}` } });
    expect(other.status).toBe(405);
    expect(other.headers.get('allow')).toBe('POST');
  });

  it('accepts the longest comment in any script', async () => {
    expect((await give({ ...said, comment: '語'.repeat(1_000) })).status).toBe(200);
  });

  it('counts against the request limit of the key', async () => {
    const statuses: number[] = [];
    for (let n = 0; n < 65; n++) statuses.push((await give(said, RATED)).status);
    expect(statuses).toContain(429);
    expect(heard.length).toBeLessThan(65);
  });
});
