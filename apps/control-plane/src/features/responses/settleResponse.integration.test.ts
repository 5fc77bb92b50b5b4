import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  newProducerKey,
  RecordResponseRequestSchema,
  SettleResponseResponse_Result as Result,
  SettleResponseRequestSchema,
} from '@weighbridge/contracts';
import { newId, newUuid } from '@weighbridge/domain';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { emptyLedger, recordAttempts, type Used } from '../../../test/usage.ts';
import { finalResponse, ownedObjects, settlementMessage } from '../../grpc/responseMessages.ts';
import { ownerOfResponse, recordObjects, unsettledResponses } from './responses.service.ts';
import { settleResponse } from './settleResponse.service.ts';

let api: TestApi;
let connectorId: string;
const PRODUCER = newUuid();
const NOW = new Date('2026-11-20T10:00:00Z');

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });
const setPrice = async (model: string, body: Json) =>
  (await api.call('POST', `/catalog/models/${model}/prices`, { body })).body.version as number;

beforeAll(async () => {
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor' });
  const body = { name: 'mine', provider: 'mock', dialect: 'openai', base_url: 'https://mock.test/v1' };
  connectorId = (await api.call('POST', '/connectors', { body })).body.id as string;
});
afterAll(() => api.close());
beforeEach(async () => {
  api.now = NOW;
  await emptyLedger(api.db);
  await api.db.deleteFrom('stored_responses').execute();
});

const deps = () => ({ db: api.db, now: () => api.now });

/** An unfinished response whose attempt was charged 5,000 nano-USD, if it is in the ledger. */
async function unfinished(fields: Used & { id?: string; isRecorded?: boolean; producerId?: string } = {}) {
  const eventId = newUuid();
  const requestId = newId('req');
  const { id = `resp_${eventId}`, isRecorded = true, producerId = PRODUCER, ...used } = fields;
  const response = { responseId: id, connectorId, principalId: 'ada' };
  const model = used.model ?? 'mock/echo';
  const request = { ...response, keyId: 'key_1', unfinished: { eventId, model, producerId } };
  await recordObjects(deps(), ownedObjects(create(RecordResponseRequestSchema, request)));
  const attempt = { event: eventId, connector: connectorId, costNano: 5_000n, estimated: true, ...used };
  const arrive = () => recordAttempts(api.db, [{ ...attempt, request: requestId }]);
  if (isRecorded) await arrive();
  return { ...response, requestId, arrive };
}
type Unfinished = Awaited<ReturnType<typeof unfinished>>;

async function settle(
  { responseId, connectorId: connector, principalId }: Unfinished,
  fields: Omit<MessageInitShape<typeof SettleResponseRequestSchema>, '$typeName'>,
) {
  const message = { responseId, connectorId: connector, principalId, status: 'completed', ...fields };
  return settlementMessage(
    await settleResponse(deps(), finalResponse(create(SettleResponseRequestSchema, message), false)),
  );
}

const corrections = async () =>
  await api.db.selectFrom('usage_events').selectAll().where('kind', '=', 'correction').execute();
/** What each bucket of the ledger has spent; all agree. */
async function spent(): Promise<bigint> {
  const rows = await api.db.selectFrom('spend_buckets').selectAll().execute();
  const amounts = new Set(rows.map((row) => row.spent_nano_usd));
  expect(amounts.size).toBe(1);
  return rows[0]?.spent_nano_usd ?? 0n;
}

describe('an unfinished response', () => {
  it('is corrected by its final usage, once, in the buckets of its attempt', async () => {
    const version = await setPrice('mock/echo', { input_price: usd(2), output_price: usd(10) });
    const response = await unfinished({ priceVersion: version });
    expect(await spent()).toBe(5_000n);
    // 1,000 × 2 + 100 × 10 USD per million tokens.
    const usage = { input: 1_000, output: 100 };
    expect(await settle(response, { usage })).toEqual({
      result: Result.SETTLED,
      costNanoUsd: 3_000_000n,
      correctionNanoUsd: 2_995_000n,
      unpriced: [],
    });
    expect(await spent()).toBe(3_000_000n);
    expect(await settle(response, { usage: { input: 1 } })).toEqual({ result: Result.ALREADY_SETTLED });
    const [correction, ...others] = await corrections();
    expect(others).toEqual([]);
    expect(correction?.reason).toBe(
      'background response completed: 1000 input and 100 output tokens, 0.003 USD; it was charged 0.000005 USD',
    );
    const shown = (await api.call('GET', `/requests/${response.requestId}`)).body;
    expect(shown).toMatchObject({ cost_micro_usd: 3_000, corrections: [{ amount_micro_usd: 2_995 }] });
  });

  it('is corrected once by concurrent calls', async () => {
    const response = await unfinished();
    const calls = Array.from({ length: 8 }, (_, n) => settle(response, { usage: { input: 1_000 + n } }));
    const results = (await Promise.all(calls)).map(({ result }) => result);
    expect(results.filter((result) => result === Result.SETTLED)).toHaveLength(1);
    expect(results.filter((result) => result === Result.ALREADY_SETTLED)).toHaveLength(7);
    expect(await corrections()).toHaveLength(1);
  });

  it('costs less than its reservation, down to nothing', async () => {
    const response = await unfinished();
    const settled = await settle(response, { usage: {} });
    expect(settled).toMatchObject({ costNanoUsd: 0n, correctionNanoUsd: -5_000n });
    expect(await spent()).toBe(0n);
  });

  it('stays at its reservation if the vendor reports no usage', async () => {
    const response = await unfinished();
    expect(await settle(response, { status: 'failed' })).toMatchObject({
      result: Result.SETTLED,
      costNanoUsd: 5_000n,
      correctionNanoUsd: 0n,
    });
    expect(await corrections()).toEqual([]);
    expect(await settle(response, { usage: { input: 1 } })).toEqual({ result: Result.ALREADY_SETTLED });
  });

  it('costs its tools beside its reservation, if the vendor reports them and no usage', async () => {
    const price = { input_price: usd(1), output_price: usd(1), tool_prices: { web_search: usd(0, 10) } };
    const price_version = await setPrice('mock/echo', price);
    const response = await unfinished({ priceVersion: price_version });
    const details = { toolUses: { web_search: 3 } };
    expect(await settle(response, { status: 'cancelled', details })).toMatchObject({
      costNanoUsd: 5_030n,
      correctionNanoUsd: 30n,
    });
  });

  it('costs what other models used at their prices, or at its own if they have none', async () => {
    await setPrice('openai/gpt-image-1', { input_price: usd(10), output_price: usd(40) });
    const others = (model: string) => [{ model, usage: { output: 100 } }];
    const cost = async (model: string) =>
      await settle(await unfinished(), { usage: { input: 0 }, others: others(model) });
    expect(await cost('openai/gpt-image-1')).toMatchObject({ costNanoUsd: 4_000_000n, unpriced: [] });
    expect((await cost('openai/never-heard-of')).unpriced).toEqual(['model:openai/never-heard-of']);
  });

  it('is pending until the ledger has its attempt', async () => {
    const response = await unfinished({ isRecorded: false });
    expect(await settle(response, { usage: { input: 1 } })).toEqual({ result: Result.PENDING });
    await response.arrive();
    expect(await settle(response, { usage: { input: 1 } })).toMatchObject({ result: Result.SETTLED });
  });

  it('is unknown to other principals and connectors, as finished responses are', async () => {
    const response = await unfinished();
    const usage = { input: 1 };
    const unknown = { result: Result.UNKNOWN };
    expect(await settle({ ...response, principalId: 'bob' }, { usage })).toEqual(unknown);
    expect(await settle({ ...response, connectorId: 'con_other' }, { usage })).toEqual(unknown);
    expect(await settle({ ...response, responseId: 'resp_other' }, { usage })).toEqual(unknown);
    const finished = { ...response, responseId: 'resp_finished', keyId: 'key_1' };
    await recordObjects(deps(), { ...finished, objectIds: [], areLasting: false, containerGb: 0 });
    expect(await settle(finished, { usage })).toEqual(unknown);
    expect(await corrections()).toEqual([]);
  });

  it('is left to the proxy that made it, for as long as that may settle it', async () => {
    const [made, other] = [newProducerKey().key.producerId, newProducerKey().key.producerId];
    const epoch = newUuid();
    const seen = { first_seen_at: NOW, last_seen_at: NOW, mark_at: NOW };
    await api.db
      .insertInto('producers')
      .values({ producer_id: made, epoch, ...seen })
      .execute();
    const response = await unfinished({ producerId: made });
    const by = (producerId: string) => settle(response, { producerId, usage: { input: 1 } });
    expect(await by(other)).toEqual({ result: Result.NOT_MAKER });
    expect(await by('')).toEqual({ result: Result.NOT_MAKER });
    api.now = new Date(NOW.getTime() + 3_600_001);
    expect(await by(other)).toEqual({ result: Result.UNKNOWN });
    // It is heard of for a day, but polls no longer.
    api.now = new Date(NOW.getTime() + 24 * 3_600_000);
    await api.db.updateTable('producers').set({ last_seen_at: api.now }).where('epoch', '=', epoch).execute();
    expect(await by(other)).toEqual({ result: Result.UNKNOWN });
    expect([await corrections(), await spent()]).toEqual([[], 5_000n]);
    expect(await by(made)).toMatchObject({ result: Result.SETTLED });
    expect(await by(other)).toEqual({ result: Result.ALREADY_SETTLED });
  });

  it('is priced at the version of its attempt, with its conditions and tools', async () => {
    const version = await setPrice('mock/echo', {
      input_price: usd(1),
      output_price: usd(1),
      variants: [{ service_tier: 'priority', input_price: usd(3), output_price: usd(4) }],
      tool_prices: { web_search: usd(0, 10_000_000) },
    });
    await setPrice('mock/echo', { input_price: usd(90), output_price: usd(90) });
    const response = await unfinished({ priceVersion: version });
    const details = { serviceTier: 'priority', toolUses: { web_search: 2 } };
    expect(await settle(response, { usage: { input: 100, output: 10 }, details })).toMatchObject({
      costNanoUsd: 340_000n + 20_000_000n,
      unpriced: [],
    });
    expect((await corrections())[0]?.reason).toContain(
      '100 input and 10 output tokens, priority, web_search 2 times, 0.02034 USD; it was charged',
    );
  });

  it('is priced at the negotiated version of its attempt', async () => {
    const put = async (units: number) =>
      (
        await api.call('PUT', `/connectors/${connectorId}/prices/mock/echo`, {
          body: { input_price: usd(units), output_price: usd(units) },
        })
      ).body.version as number;
    const version = await put(7);
    await put(8);
    const response = await unfinished({ priceVersion: version, priceSource: 'connector' });
    expect(await settle(response, { usage: { input: 100 } })).toMatchObject({ costNanoUsd: 700_000n });
  });

  it('is charged at the dearest known price for what has none', async () => {
    const version = await setPrice('mock/echo', { input_price: usd(1), output_price: usd(1) });
    const other = { input_price: usd(1), output_price: usd(1), tool_prices: { shell: usd(2) } };
    await setPrice('openai/gpt-4o-mini', other);
    const response = await unfinished({ priceVersion: version });
    const details = { toolUses: { shell: 3 } };
    expect(await settle(response, { usage: { outputAudio: 10 }, details })).toMatchObject({
      costNanoUsd: 6_000_000_000n + 2_000_000n,
      unpriced: ['output_audio', 'tool:shell'],
    });
    expect((await api.call('GET', `/requests/${response.requestId}`)).body).toMatchObject({
      corrections: [{ unpriced: ['output_audio', 'tool:shell'] }],
    });
  });

  it('is priced as the model that it names, if the catalog has its price', async () => {
    await setPrice('openai/gpt-4o-mini', { input_price: usd(50), output_price: usd(50) });
    const named = async (pricedModel: string) =>
      await settle(await unfinished(), { usage: { input: 10 }, details: { pricedModel } });
    expect(await named('openai/gpt-4o-mini')).toMatchObject({ costNanoUsd: 500_000n, unpriced: [] });
    expect((await named('openai/never-heard-of')).unpriced).toEqual(['model:openai/never-heard-of']);
    expect((await named('mock/echo')).unpriced).toEqual([]);
  });

  it('never makes an attempt cost less than nothing, or more than the ledger holds', async () => {
    const response = await unfinished();
    const body = { amount_micro_usd: -5, reason: 'a refund' };
    expect((await api.call('POST', `/requests/${response.requestId}/corrections`, { body })).status).toBe(
      201,
    );
    expect(await settle(response, { usage: {} })).toMatchObject({ costNanoUsd: 0n, correctionNanoUsd: 0n });
    expect(await spent()).toBe(0n);
    const version = await setPrice('mock/echo', { input_price: usd(999_999), output_price: usd(1) });
    const dear = await unfinished({ priceVersion: version });
    const settled = await settle(dear, { usage: { input: 2_000_000 } });
    expect(settled.costNanoUsd).toBe(10n ** 15n);
    expect(settled.correctionNanoUsd).toBe(10n ** 15n - 5_000n);
  });

  it('is listed for its spool, and shown to its owner, until it is settled or a day old', async () => {
    const first = await unfinished();
    api.now = new Date(NOW.getTime() + 1_000);
    const second = await unfinished();
    const listed = async () =>
      (await unsettledResponses(deps(), PRODUCER)).map(({ responseId }) => responseId);
    expect(await unsettledResponses(deps(), PRODUCER)).toMatchObject([
      { responseId: first.responseId, connectorId, principalId: 'ada', keyId: 'key_1', ageMs: 1_000 },
      { responseId: second.responseId, ageMs: 0, unfinished: { model: 'mock/echo', producerId: PRODUCER } },
    ]);
    expect(await unsettledResponses(deps(), newUuid())).toEqual([]);
    expect(await ownerOfResponse(deps(), first.responseId, 'ada')).toMatchObject({
      kind: 'own',
      unfinished: { model: 'mock/echo' },
    });
    await settle(first, { usage: { input: 1 } });
    expect(await listed()).toEqual([second.responseId]);
    expect(await ownerOfResponse(deps(), first.responseId, 'ada')).toMatchObject({ unfinished: undefined });
    api.now = new Date(NOW.getTime() + 24 * 3_600_000 + 1_000);
    expect(await listed()).toEqual([]);
    // A read still settles it.
    expect(await settle(second, { usage: { input: 1 } })).toMatchObject({ result: Result.SETTLED });
  });
});
