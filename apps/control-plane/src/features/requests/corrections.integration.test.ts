import { newId, newUuid } from '@weighbridge/domain';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const correct = (request: string, body: Json, headers: Record<string, string> = {}) =>
  api.call('POST', `/requests/${request}/corrections`, { body, headers });
const spent = async (principal: string) => {
  const { rows } = await sql<{ spent: bigint }>`
    SELECT spent_nano_usd AS spent FROM spend_buckets WHERE subject = ${`principal:${principal}`}`.execute(
    api.db,
  );
  return rows.map((row) => row.spent);
};
let people = 0;
const newPerson = () => `person-${++people}`;

describe('a correction', () => {
  it('adds a signed amount to the spend in the window of its request, and is audited', async () => {
    const principal = newPerson();
    const [request = ''] = await recordAttempts(api.db, [{ principal, costNano: 5_000_000n }]);
    const { status, body } = await correct(request, {
      amount_micro_usd: -2_000,
      reason: 'not on the invoice',
    });
    expect([status, body]).toMatchObject([
      201,
      {
        amount_micro_usd: -2_000,
        amount_nano_usd: '-2000000',
        reason: 'not on the invoice',
        recorded_at: api.now.toISOString(),
      },
    ]);
    expect(await spent(principal)).toEqual([3_000_000n]);
    await correct(request, { amount_micro_usd: 500, reason: 'a part of it is', event_id: body.corrects });
    expect(await spent(principal)).toEqual([3_500_000n]);
    const { data } = (await api.call('GET', `/audit?resource_id=${request}`)).body as { data: Json[] };
    expect(data.map(({ action, detail }) => [action, detail])).toMatchObject([
      ['request.corrected', { amount_micro_usd: 500, corrects: body.corrects }],
      ['request.corrected', { amount_micro_usd: -2_000, reason: 'not on the invoice' }],
    ]);
  });

  it('is recorded once for all requests with one Idempotency-Key', async () => {
    const principal = newPerson();
    const [request = '', other = ''] = await recordAttempts(api.db, [{ principal, costNano: 1_000n }, {}]);
    const body = { amount_micro_usd: 7, reason: 'x' };
    const headers = { 'idempotency-key': `once-${principal}` };
    const responses = await Promise.all([1, 2, 3].map(() => correct(request, body, headers)));
    expect(responses.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(responses.map((response) => response.body.event_id)).size).toBe(1);
    expect(await spent(principal)).toEqual([8_000n]);
    // The same body for another request is another correction.
    expect(await outcome(correct(other, body, headers))).toEqual([409, 'idempotency_key_reused']);
  });

  it('is rejected if it corrects nothing, and then changes nothing', async () => {
    const principal = newPerson();
    const [request = '', other = ''] = await recordAttempts(api.db, [{ principal }, {}]);
    const [foreign] = await api.db
      .selectFrom('usage_events')
      .select('event_id')
      .where('request_id', '=', other)
      .execute();
    const body = { amount_micro_usd: 1, reason: 'x' };
    for (const event_id of [foreign?.event_id, newUuid(), 'x']) {
      expect(await outcome(correct(request, { ...body, event_id }))).toEqual([422, 'event_not_found']);
    }
    for (const wrong of [
      { ...body, amount_micro_usd: 0 },
      { ...body, amount_micro_usd: 0.5 },
      { ...body, amount_micro_usd: -1e16 },
      { ...body, reason: '' },
      { amount_micro_usd: 1 },
    ]) {
      expect(await outcome(correct(request, wrong))).toEqual([400, 'invalid_request']);
    }
    expect((await correct(request, { ...body, amount_micro_usd: 0 })).body.error).toMatchObject({
      message: 'amount_micro_usd: is not an allowed value.',
    });
    for (const id of [newId('req'), newId('key'), 'x']) {
      expect(await outcome(correct(id, body))).toEqual([404, 'request_not_found']);
    }
    expect(await spent(principal)).toEqual([1_000n]);
  });

  it('takes off at most the cost of the attempt, over all its corrections, so it adds no headroom', async () => {
    const principal = newPerson();
    const [request = ''] = await recordAttempts(api.db, [{ principal }]);
    const off = (amount: number) => correct(request, { amount_micro_usd: amount, reason: 'x' });
    expect(await outcome(off(-2))).toEqual([422, 'correction_exceeds_cost']);
    expect((await off(1)).status).toBe(201);
    const both = await Promise.all([off(-2), off(-2)]);
    expect(both.map(({ status }) => status).sort()).toEqual([201, 422]);
    expect(await spent(principal)).toEqual([0n]);
  });

  it.each([
    [33_600n, -34],
    [33_400n, -33],
    [1_000_500n, -1_001],
  ])(
    'by the micro-USD that the API shows takes off all of %d nano-USD',
    async (costNano, amount_micro_usd) => {
      const principal = newPerson();
      const [request = ''] = await recordAttempts(api.db, [{ principal, costNano }]);
      const { body } = await api.call('GET', `/requests/${request}`);
      expect(body.cost_micro_usd).toBe(-amount_micro_usd);
      const taken = await correct(request, { amount_micro_usd, reason: 'a refund' });
      expect([taken.status, taken.body]).toMatchObject([201, { amount_nano_usd: String(-costNano) }]);
      expect(await spent(principal)).toEqual([0n]);
      const again = correct(request, { amount_micro_usd, reason: 'a refund' });
      expect(await outcome(again)).toEqual([422, 'correction_exceeds_cost']);
    },
  );

  it('cannot raise a cost over the maximum, so that no bucket overflows', async () => {
    const principal = newPerson();
    const [request = ''] = await recordAttempts(api.db, [{ principal, costNano: 1_000n }]);
    const add = (amount_micro_usd: number) => correct(request, { amount_micro_usd, reason: 'x' });
    expect(await outcome(add(1_000_000_000_000))).toEqual([422, 'correction_too_large']);
    expect(await outcome(add(1_000_000_000_000_000))).toEqual([422, 'correction_too_large']);
    expect((await add(999_999_999_999)).status).toBe(201);
    expect(await outcome(add(1))).toEqual([422, 'correction_too_large']);
    expect(await spent(principal)).toEqual([1_000_000_000_000_000n]);
  });

  it('cannot be corrected itself, only its attempt', async () => {
    const [request = ''] = await recordAttempts(api.db, [{ principal: newPerson() }]);
    const { body } = await correct(request, { amount_micro_usd: 1, reason: 'x' });
    const again = correct(request, { amount_micro_usd: 1, reason: 'x', event_id: body.event_id });
    expect(await outcome(again)).toEqual([422, 'event_not_found']);
  });
});
