import { newUuid } from '@weighbridge/domain';
import { useDatabase } from '@weighbridge/testing';
import { beforeAll, expect, it } from 'vitest';
import { type ConnectorCall, grantAccounts } from './accounts.ts';

const database = useDatabase();

beforeAll(async () => {
  const now = new Date();
  for (const [id, requests_per_minute] of [
    ['con_sixty', 60],
    ['con_free', null],
  ] as const) {
    await database.db
      .insertInto('connectors')
      .values({
        id,
        name: id,
        provider: 'mock',
        dialect: 'openai',
        base_url: 'http://127.0.0.1',
        origin: 'operator',
        created_at: now,
        updated_at: now,
        requests_per_minute,
      })
      .execute();
  }
});

const call = (connectorId: string, requests: number, producerId = newUuid()): ConnectorCall => ({
  connectorId,
  producerId,
  waiting: Array.from({ length: requests }, () => ({ priority: 0, tokens: 0, stays: false })),
  corrections: [],
  vendorLeft: undefined,
  refusedMs: 0,
});

it('grants what the account has, once, whoever asks at the same time', async () => {
  const grants = await Promise.all(
    Array.from({ length: 30 }, () => grantAccounts(database.db, [call('con_sixty', 7)])),
  );
  expect(grants.flat().reduce((sum, { granted }) => sum + granted, 0)).toBe(60);
  expect(grants.flat().at(-1)?.left).toEqual({ requests: expect.any(Number), tokens: undefined });
});

it('grants all to an account without limits, and nothing to one that is gone', async () => {
  const grants = await grantAccounts(database.db, [
    call('con_free', 100),
    call('con_gone', 1),
    call('con_sixty', 1),
  ]);
  expect(grants.map(({ granted }) => granted)).toEqual([100, 0, 0]);
});
