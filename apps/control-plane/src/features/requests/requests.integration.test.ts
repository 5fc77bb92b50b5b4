import { createHash } from 'node:crypto';
import { newId, newUuid } from '@weighbridge/domain';
import { recordCorrection } from '@weighbridge/ledger';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts, type Used } from '../../../test/usage.ts';

let api: TestApi;
let ada: string;
beforeAll(async () => {
  api = await startTestApi();
  ada = (await api.issue({ principal_id: 'ada', scopes: ['usage:read'] })).key;
});
afterAll(() => api.close());
beforeEach(() => emptyLedger(api.db));

async function list(query: Record<string, string> = {}, key = api.operatorKey) {
  const { status, body } = await api.call('GET', `/requests?${new URLSearchParams(query)}`, { key });
  return {
    status,
    body,
    ids: ((body.data ?? []) as { request_id: string }[]).map(({ request_id }) => request_id),
    error: body.error as { code: string; message: string },
  };
}

const at = (minute: number) => new Date(Date.parse('2026-11-20T09:00:00Z') + minute * 60_000);

describe('GET /requests/{request_id}', () => {
  it('shows all attempts of a request in order, with every field', async () => {
    const request = newId('req');
    const attribution = {
      user: 'u',
      labels: { ['__proto__']: 'x' },
      session_id: 's',
      session_sha256: 'ab',
      workload_type: 'w',
      workload_type_sha256: 'cd',
    };
    const of = { request, policies: ['pol_a', 'pol_parent'], attribution };
    await recordAttempts(api.db, [
      { ...of, costNano: 1_400n, model: 'mock/two', admittedAt: at(1) },
      { ...of, costNano: 100n, model: 'mock/one', outcome: 'upstream_error', admittedAt: at(0) },
    ]);
    const { status, body } = await api.call('GET', `/requests/${request}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      request_id: request,
      admitted_at: at(0).toISOString(),
      outcome: 'success',
      model_requested: 'mock/one',
      key_id: 'key_1',
      key_name: null,
      principal_id: 'ada',
      team_id: null,
      team_name: null,
      attribution: {
        user: 'u',
        labels: JSON.parse('{"__proto__":"x"}'),
        session_id: 's',
        workload_type: 'w',
      },
      policies: [
        { policy_id: 'pol_a', name: null, window_start: '2026-11-01T00:00:00.000Z' },
        { policy_id: 'pol_parent', name: null, window_start: '2026-11-01T00:00:00.000Z' },
      ],
      cost_micro_usd: 2,
      refusal: null,
      attempts: [
        {
          event_id: expect.stringMatching(/^[0-9a-f-]{36}$/),
          model_requested: 'mock/one',
          model: 'mock/one',
          provider: 'mock',
          connector_id: 'con_1',
          connector_name: null,
          outcome: 'upstream_error',
          http_status: 200,
          streamed: false,
          cache_hit: false,
          input_tokens: 10,
          cache_read_tokens: 4,
          cache_write_tokens: 3,
          cache_write_1h_tokens: 2,
          output_tokens: 5,
          input_audio_tokens: 0,
          input_image_tokens: 0,
          cache_read_audio_tokens: 0,
          output_audio_tokens: 0,
          output_image_tokens: 0,
          service_tier: null,
          speed: null,
          geography: null,
          tool_uses: {},
          price_incomplete: false,
          unpriced: [],
          priced_model: null,
          dropped: [],
          skipped: [],
          cost_micro_usd: 0,
          cost_nano_usd: '100',
          price_source: 'catalog',
          price_version: 1,
          estimated: false,
          admitted_at: at(0).toISOString(),
          settled_at: new Date(at(0).getTime() + 1_500).toISOString(),
          first_byte_ms: 1.234,
          duration_ms: 1_500,
          response_id: null,
        },
        expect.objectContaining({ model: 'mock/two', cost_micro_usd: 1, cost_nano_usd: '1400' }),
      ],
      corrections: [],
      feedback: null,
      costs: [
        { event_id: expect.any(String), by_class: null },
        { event_id: expect.any(String), by_class: null },
      ],
    });
    const { costs: _, ...listed } = body;
    expect((await list()).body.data).toEqual([listed]);
    // Parent policies are shown only to operators.
    expect((await api.call('GET', `/requests/${request}`, { key: ada })).body.policies).toHaveLength(1);
  });

  it('splits the cost of an attempt by class at the price that it was charged at, or says that it can not', async () => {
    const price = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
    const body = { input_price: price(2), output_price: price(10), cache_read_price: price(1) };
    const path = '/catalog/models/openai%2Fgpt-5/prices';
    const { status, body: priced } = await api.call('POST', path, { body });
    expect([status, priced]).toEqual([201, expect.anything()]);
    const of = { model: 'openai/gpt-5', priceVersion: Number(priced.version) };
    // 10×2 + 4×1 + 3×2 + 2×2 + 5×10 micro-USD
    const [split = ''] = await recordAttempts(api.db, [{ ...of, costNano: 84_000n }]);
    const costs = async (id: string) =>
      ((await api.call('GET', `/requests/${id}`)).body.costs as { by_class: unknown }[]).map(
        ({ by_class }) => by_class,
      );
    expect(await costs(split)).toEqual([
      [
        { class: 'input', quantity: 10, price: price(2), cost_nano_usd: '20000' },
        { class: 'output', quantity: 5, price: price(10), cost_nano_usd: '50000' },
        { class: 'cache_read', quantity: 4, price: price(1), cost_nano_usd: '4000' },
        { class: 'cache_write', quantity: 3, price: price(2), cost_nano_usd: '6000' },
        { class: 'cache_write_1h', quantity: 2, price: price(2), cost_nano_usd: '4000' },
      ],
    ]);
    const details = { input_audio_tokens: 3, unpriced: ['input_audio'] };
    for (const other of [
      { costNano: 84_001n },
      { costNano: 84_000n, priceVersion: of.priceVersion + 1 },
      { costNano: 84_000n, details: { priced_model: 'openai/gpt-5-mini' } },
      { costNano: 84_000n, details },
    ]) {
      const [id = ''] = await recordAttempts(api.db, [{ ...of, ...other }]);
      expect(await costs(id)).toEqual([null]);
    }
    const [hit = ''] = await recordAttempts(api.db, [{ ...of, costNano: 0n, cacheHit: true }]);
    expect(await costs(hit)).toEqual([[]]);
  });

  it('shows a cache hit, which counts as a request but not as an attempt at a vendor', async () => {
    const [request = ''] = await recordAttempts(api.db, [
      { cacheHit: true, costNano: 0n, admittedAt: at(0) },
      { costNano: 1_000n, admittedAt: at(1) },
    ]);
    const { body } = await api.call('GET', `/requests/${request}`);
    expect(body).toMatchObject({ cost_micro_usd: 0, attempts: [{ cache_hit: true, model: 'mock/echo' }] });
    const range = `from=${at(-60).toISOString()}&to=${at(60).toISOString()}`;
    const spend = await api.call('GET', `/spend?${range}`);
    expect(spend.body.data).toMatchObject([{ requests: 2, attempts: 1, cost_micro_usd: 1 }]);
  });

  it('shows what the cost depends on, and lists the requests whose price was incomplete', async () => {
    const details = {
      input_audio_tokens: 3,
      output_image_tokens: 2,
      service_tier: 'priority',
      geography: 'us',
      tool_uses: { web_search: 2 },
      unpriced: ['tool:web_search'],
      priced_model: 'mock/other',
    };
    const [incomplete = '', complete] = await recordAttempts(api.db, [
      { details, admittedAt: at(0) },
      { details: { service_tier: 'flex' }, admittedAt: at(1) },
    ]);
    expect((await api.call('GET', `/requests/${incomplete}`)).body.attempts).toMatchObject([
      { ...details, input_tokens: 10, input_image_tokens: 0, speed: null, price_incomplete: true },
    ]);
    expect((await list({ price_incomplete: 'true' })).ids).toEqual([incomplete]);
    expect((await list({ price_incomplete: 'false' })).ids).toEqual([complete]);
    expect((await list()).ids).toEqual([complete, incomplete]);
  });

  it('shows corrections, and includes them in the cost', async () => {
    const request = newId('req');
    await recordAttempts(api.db, [{ request, costNano: 5_000n, admittedAt: at(0) }]);
    const recordedAt = at(60);
    const correct = async (amountNanoUsd: bigint, reason: string) =>
      await api.db.transaction().execute(
        async (tx) =>
          await recordCorrection(tx, {
            correctionId: newUuid(),
            requestId: request,
            amountNanoUsd,
            reason,
            now: recordedAt,
          }),
      );
    await correct(-2_400n, 'the invoice says less');
    await correct(1_000n, 'but not so much');
    const { body } = await api.call('GET', `/requests/${request}`, { key: ada });
    const [attempt] = body.attempts as { event_id: string }[];
    expect(body).toMatchObject({
      cost_micro_usd: 4,
      attempts: [{ cost_micro_usd: 5 }],
      corrections: [
        {
          corrects: attempt?.event_id,
          amount_micro_usd: -2,
          amount_nano_usd: '-2400',
          reason: 'the invoice says less',
          recorded_at: recordedAt.toISOString(),
        },
        { amount_nano_usd: '1000', reason: 'but not so much' },
      ],
    });
    // Filters match attempts, not corrections.
    expect((await list({ outcome: 'success' })).ids).toEqual([request]);
    expect((await list({ min_cost_micro_usd: '1', from: at(1).toISOString() })).ids).toEqual([]);
  });

  it("is not found if its id is unknown, malformed or of another principal's request", async () => {
    const [bobs] = await recordAttempts(api.db, [{ principal: 'bob' }]);
    for (const id of [bobs, newId('req'), newId('key'), 'req_1', '%00', 'x'.repeat(500), "'"]) {
      const { status, body } = await api.call('GET', `/requests/${id}`, { key: ada });
      expect([status, (body.error as { code: string }).code]).toEqual([404, 'request_not_found']);
    }
    expect((await api.call('GET', `/requests/${bobs}`)).status).toBe(200);
  });
});

describe('GET /requests', () => {
  it('lists each request once, newest first, over pages, while more arrive', async () => {
    const used: Used[] = Array.from({ length: 30 }, (_, n) => ({ admittedAt: at(Math.floor(n / 3)) }));
    const ids = await recordAttempts(api.db, used);
    await recordAttempts(
      api.db,
      ids.slice(10, 20).map((request) => ({ request, admittedAt: at(30), outcome: 'upstream_error' })),
    );
    const before = (await list()).ids;
    expect(new Set(before)).toEqual(new Set(ids));
    expect(before.slice(-3).sort()).toEqual(ids.slice(0, 3).sort());
    const seen: string[] = [];
    let token = '';
    do {
      const response = await list({ page_size: '4', page_token: token });
      seen.push(...response.ids);
      token = String(response.body.next_page_token);
      await recordAttempts(api.db, [{ admittedAt: at(40) }, { request: ids[3] ?? '', admittedAt: at(40) }]);
    } while (token);
    expect(seen).toEqual(before);
  });

  it('filters by each field, and by several', async () => {
    const session = 's'.repeat(300);
    const [wanted] = await recordAttempts(api.db, [
      {
        principal: 'p1',
        key: 'key_p1',
        policies: ['pol_p1'],
        model: 'p1/m',
        costNano: 5_000_000n,
        outcome: 'interrupted',
        estimated: true,
        admittedAt: at(1),
        attribution: {
          user: 'u1',
          team: 't1',
          project: 'j1',
          env: 'e1',
          labels: { a: '1' },
          session_id: session.slice(0, 256),
          session_sha256: createHash('sha256').update(session).digest('hex'),
        },
      },
      { admittedAt: at(3), attribution: { session_id: session.slice(0, 256) } },
    ]);
    const filters: Record<string, string> = {
      from: at(0).toISOString(),
      to: at(2).toISOString(),
      principal_id: 'p1',
      key_id: 'key_p1',
      policy_id: 'pol_p1',
      model: 'p1/m',
      provider: 'p1',
      user: 'u1',
      team: 't1',
      project: 'j1',
      env: 'e1',
      label: 'a=1',
      outcome: 'interrupted',
      request_id: wanted ?? '',
      session_id: session,
      min_cost_micro_usd: '5000',
      estimated: 'true',
    };
    const { from: _, ...alone } = filters;
    for (const [name, value] of Object.entries(alone)) {
      expect([name, (await list({ [name]: value })).ids]).toEqual([name, [wanted]]);
    }
    expect((await list(filters)).ids).toEqual([wanted]);
    expect((await list({ ...filters, env: 'e2' })).ids).toEqual([]);
    expect((await list({ min_cost_micro_usd: '5001' })).ids).toEqual([]);
    expect((await list({ estimated: 'false' })).ids).not.toContain(wanted);
  });

  it('lists the last month by default, and all time for a request id or a session', async () => {
    const session = createHash('sha256').update('s').digest('hex');
    const [old] = await recordAttempts(api.db, [
      { admittedAt: new Date('2024-01-01T00:00:00Z'), attribution: { session_sha256: session } },
    ]);
    expect((await list()).ids).toEqual([]);
    expect((await list({ request_id: old ?? '' })).ids).toEqual([old]);
    expect((await list({ session_id: 's' })).ids).toEqual([old]);
    expect((await list({ from: '2023-12-01T00:00:00Z', to: '2024-02-01T00:00:00Z' })).ids).toEqual([old]);
  });

  it("shows only the caller's own principal's requests, without the scope operator", async () => {
    const [own, bobs] = await recordAttempts(api.db, [{}, { principal: 'bob', key: 'key_b' }]);
    expect((await list()).ids).toHaveLength(2);
    expect((await list({}, ada)).ids).toEqual([own]);
    for (const query of [{ key_id: 'key_b' }, { request_id: bobs ?? '' }]) {
      expect((await list(query, ada)).ids).toEqual([]);
    }
    expect((await list({ principal_id: 'bob' }, ada)).error.code).toBe('principal_not_allowed');
  });

  it.each<[Record<string, string>, string, RegExp]>([
    [{ outcome: 'bad' }, 'invalid_request', /outcome/],
    [{ estimated: 'yes' }, 'invalid_request', /estimated/],
    [{ min_cost_micro_usd: '-1' }, 'invalid_request', /min_cost_micro_usd/],
    [{ min_cost_micro_usd: '1e3' }, 'invalid_request', /min_cost_micro_usd/],
    [{ min_cost_micro_usd: '9999999999999999' }, 'invalid_request', /min_cost_micro_usd/],
    [{ from: '2026-11-20T10:00:00Z', to: '2026-11-19T10:00:00Z' }, 'invalid_request', /before/],
    [{ from: '2020-11-20T10:00:00Z', to: '2026-11-19T10:00:00Z' }, 'invalid_request', /400 days/],
    [{ session_id: 'a\u0000' }, 'invalid_request', /session_id/],
    [{ page_token: 'x' }, 'invalid_page_token', /page_token/],
    [
      { page_token: Buffer.from('["requests","x","y"]').toString('base64url') },
      'invalid_page_token',
      /page_token/,
    ],
    [
      { page_token: Buffer.from('["requests","2026-11-01"]').toString('base64url') },
      'invalid_page_token',
      /page_token/,
    ],
    [{ other: '1' }, 'invalid_request', /other/],
  ])('rejects %j with %s', async (query, code, message) => {
    const { status, error } = await list(query);
    expect([status, error.code]).toEqual([400, code]);
    expect(error.message).toMatch(message);
  });
});
