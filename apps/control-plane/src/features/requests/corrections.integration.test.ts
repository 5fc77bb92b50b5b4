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
const somebody = () => `person-${++people}`;

describe('a correction', () => {
  it('is added to what was spent in the window of its request, is signed, and is in the audit log', async () => {
    const principal = somebody();
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

  it('is made once, however often it is sent under one Idempotency-Key', async () => {
    const principal = somebody();
    const [request = '', other = ''] = await recordAttempts(api.db, [{ principal, costNano: 1_000n }, {}]);
    const body = { amount_micro_usd: 7, reason: 'x' };
    const headers = { 'idempotency-key': `once-${principal}` };
    const answers = await Promise.all([1, 2, 3].map(() => correct(request, body, headers)));
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201]);
    expect(new Set(answers.map((answer) => answer.body.event_id)).size).toBe(1);
    expect(await spent(principal)).toEqual([8_000n]);
    // The same words about another request are another correction.
    expect(await outcome(correct(other, body, headers))).toEqual([409, 'idempotency_key_reused']);
  });

  it('is refused where it corrects nothing, and then nothing is changed', async () => {
    const principal = somebody();
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
      message: 'amount_micro_usd: is a value that is not taken here.',
    });
    for (const id of [newId('req'), newId('key'), 'x']) {
      expect(await outcome(correct(id, body))).toEqual([404, 'request_not_found']);
    }
    expect(await spent(principal)).toEqual([1_000n]);
  });

  it('takes off no more than the attempt cost, however many there are: nobody gets room that nobody gave', async () => {
    const principal = somebody();
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
  ])('of what the API shows of %d nano-USD takes off all of it', async (costNano, amount_micro_usd) => {
    const principal = somebody();
    const [request = ''] = await recordAttempts(api.db, [{ principal, costNano }]);
    const { body } = await api.call('GET', `/requests/${request}`);
    expect(body.cost_micro_usd).toBe(-amount_micro_usd);
    const taken = await correct(request, { amount_micro_usd, reason: 'a refund' });
    expect([taken.status, taken.body]).toMatchObject([201, { amount_nano_usd: String(-costNano) }]);
    expect(await spent(principal)).toEqual([0n]);
    const again = correct(request, { amount_micro_usd, reason: 'a refund' });
    expect(await outcome(again)).toEqual([422, 'correction_exceeds_cost']);
  });

  it('makes no attempt cost more than any may: no sum outgrows its counter', async () => {
    const principal = somebody();
    const [request = ''] = await recordAttempts(api.db, [{ principal, costNano: 1_000n }]);
    const add = (amount_micro_usd: number) => correct(request, { amount_micro_usd, reason: 'x' });
    expect(await outcome(add(1_000_000_000_000))).toEqual([422, 'correction_too_large']);
    expect(await outcome(add(1_000_000_000_000_000))).toEqual([422, 'correction_too_large']);
    expect((await add(999_999_999_999)).status).toBe(201);
    expect(await outcome(add(1))).toEqual([422, 'correction_too_large']);
    expect(await spent(principal)).toEqual([1_000_000_000_000_000n]);
  });

  it('can not be corrected itself: the attempt is', async () => {
    const [request = ''] = await recordAttempts(api.db, [{ principal: somebody() }]);
    const { body } = await correct(request, { amount_micro_usd: 1, reason: 'x' });
    const again = correct(request, { amount_micro_usd: 1, reason: 'x', event_id: body.event_id });
    expect(await outcome(again)).toEqual([422, 'event_not_found']);
  });
});
