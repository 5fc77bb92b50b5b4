import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Json, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { recordAttempts } from '../../../test/usage.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

const spent = async (principal: string) => {
  const { rows } = await sql<{ spent: bigint }>`
    SELECT spent_nano_usd AS spent FROM spend_buckets WHERE subject = ${`principal:${principal}`}`.execute(
    api.db,
  );
  return rows.map((row) => row.spent);
};

it('a rebuild reports no difference in a correct ledger, reports one otherwise, and corrects it only with apply', async () => {
  const rebuild = async (apply: boolean) =>
    (await api.call('POST', '/ledger/rebuild', { body: { apply } })).body;
  const principal = 'ada';
  await recordAttempts(api.db, [{ principal, costNano: 5_000n }]);
  expect(await rebuild(false)).toMatchObject({ applied: false, difference_nano_usd: '0', differing: [] });
  await sql`
      UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd - 1_200
      WHERE subject = ${`principal:${principal}`}`.execute(api.db);
  const found = { difference_nano_usd: '1200', differing: [{ difference_nano_usd: '1200' }] };
  expect(await rebuild(false)).toMatchObject({ applied: false, ...found });
  expect(await spent(principal)).toEqual([3_800n]);
  expect(await rebuild(true)).toMatchObject({ applied: true, ...found });
  expect(await spent(principal)).toEqual([5_000n]);
  expect(await rebuild(true)).toMatchObject({ applied: true, difference_nano_usd: '0', differing: [] });
  const { data } = (await api.call('GET', '/audit?resource_id=ledger')).body as { data: Json[] };
  expect(data.map(({ action, detail }) => [action, (detail as Json).difference_nano_usd])).toEqual([
    ['ledger.rebuilt', '0'],
    ['ledger.rebuilt', '1200'],
  ]);
});
