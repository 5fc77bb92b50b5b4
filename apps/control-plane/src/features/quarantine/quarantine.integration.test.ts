import { newUuid } from '@weighbridge/domain';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { putInQuarantine, usageEvent } from '../../../test/quarantined.ts';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const get = async (id: string) => (await api.call('GET', `/quarantine/${id}`)).body;
const release = (id: string) => api.call('POST', `/quarantine/${id}/release`);
const discard = (id: string, note = 'a load test') =>
  api.call('POST', `/quarantine/${id}/discard`, { body: { note } });
const events = async () => await api.db.selectFrom('usage_events').select('event_id').execute();
const audited = async (id: string) =>
  ((await api.call('GET', `/audit?resource_id=${id}`)).body.data as Json[]).map(({ action, detail }) => ({
    action,
    detail,
  }));

it('quarantined usage is listed oldest first, filtered by state, and shown with its payload', async () => {
  const payload = usageEvent();
  const first = await putInQuarantine(api.db, { payload, principalId: 'ada' });
  const second = await putInQuarantine(api.db);
  await discard(second);
  const ids = async (query: string) =>
    ((await api.call('GET', `/quarantine${query}`)).body.data as Json[]).map(({ id }) => id);
  expect(await ids('')).toEqual([first, second]);
  expect(await ids('?state=held')).toEqual([first]);
  expect(await ids('?state=discarded')).toEqual([second]);
  const page = (await api.call('GET', '/quarantine?page_size=1')).body;
  expect(await ids(`?page_size=1&page_token=${page.next_page_token}`)).toEqual([second]);
  expect(await get(first)).toMatchObject({
    id: first,
    kind: 'event',
    state: 'held',
    reason: 'an earlier release could not read it',
    principal_id: 'ada',
    shard: 1,
    n: 1,
    payload_base64: Buffer.from(payload).toString('base64'),
    resolved_at: null,
    note: null,
  });
});

it('released usage is recorded once, even if it was recorded meanwhile', async () => {
  const eventId = newUuid();
  const payload = usageEvent({ eventId });
  for (const id of [await putInQuarantine(api.db, { payload }), await putInQuarantine(api.db, { payload })]) {
    const { status, body } = await release(id);
    expect([status, body]).toMatchObject([
      200,
      { id, state: 'released', resolved_by: 'operator', resolved_at: api.now.toISOString() },
    ]);
    expect(await audited(id)).toMatchObject([{ action: 'quarantine.released' }]);
  }
  expect((await events()).filter(({ event_id }) => event_id === eventId)).toHaveLength(1);
  const strata = await api.db.selectFrom('evidence_strata').select(['model', 'requests']).execute();
  expect(strata).toEqual([{ model: 'mock/echo', requests: expect.closeTo(1, 3) }]);
});

it('usage that still cannot be read stays held, and the response gives the reason', async () => {
  const id = await putInQuarantine(api.db, { payload: usageEvent({ costNanoUsd: -1n }) });
  const before = await events();
  const { status, body } = await release(id);
  expect([status, body.error]).toMatchObject([
    422,
    { code: 'still_refused', reason: expect.stringMatching(/cost/) },
  ]);
  expect(await get(id)).toMatchObject({ state: 'held', resolved_at: null });
  expect([await events(), await audited(id)]).toEqual([before, []]);
});

it('discarded usage keeps its note and is never recorded', async () => {
  const id = await putInQuarantine(api.db);
  expect(await outcome(discard(id, ''))).toEqual([400, 'invalid_request']);
  expect((await discard(id)).body).toMatchObject({
    state: 'discarded',
    note: 'a load test',
    resolved_by: 'operator',
  });
  expect(await audited(id)).toMatchObject([
    { action: 'quarantine.discarded', detail: { note: 'a load test' } },
  ]);
  expect(await outcome(release(id))).toEqual([409, 'quarantine_resolved']);
  expect(await outcome(discard(id))).toEqual([409, 'quarantine_resolved']);
});

it('of several operators at once, only one resolves it', async () => {
  const id = await putInQuarantine(api.db);
  const statuses = (await Promise.all([release(id), discard(id), release(id)])).map(({ status }) => status);
  expect(statuses.sort()).toEqual([200, 409, 409]);
});

it('a malformed id is not found', async () => {
  for (const id of ['x', '0', '-1', '1.5', '99999999999999999999', '%00']) {
    expect(await outcome(release(id))).toEqual([404, 'quarantine_not_found']);
  }
});
