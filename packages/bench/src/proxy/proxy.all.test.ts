import { createTestDatabase, testRun } from '@weighbridge/testing';
import pg from 'pg';
import { expect, it } from 'vitest';
import { writeWithRawSql } from '../metering/rawSql.ts';
import { generateEvents } from '../shared/generateUsage.ts';
import { assignCores } from './cores.ts';
import { checkLedgerSum } from './ledgerSum.ts';
import { LARGE, ONE_CALLER, PACED, PLAIN, STREAMED } from './plan.ts';
import { measureProxy } from './proxy.ts';
import { describeProxy } from './report.ts';
import { OURS } from './weighbridge.ts';

it('measures Weighbridge, bare Node and no proxy, and finds each request in the ledger', {
  timeout: 120_000,
}, async () => {
  const figures = await measureProxy(testRun(), {
    repeats: 1,
    roundMs: 20,
    warmUpRequests: 1,
    cores: assignCores([]),
    keys: 2,
    hasParts: false,
    others: undefined,
    extraContenders: [],
    lanes: ['caller', 'c32', 'streamed', '1mb', 'paced'],
    contenders: undefined,
    recordsWhenIdle: false,
    onProgress: () => {},
  });
  for (const { name } of [ONE_CALLER, PLAIN, STREAMED, LARGE, PACED]) {
    const cells = figures.cells.filter(({ workload }) => workload === name);
    expect(cells.map(({ contender }) => contender)).toEqual(['direct', 'bare Node', 'Weighbridge']);
    for (const { rounds } of cells) expect(rounds[0]?.requestsPerSecond).toBeGreaterThan(0);
  }
  expect(figures.requests).toBeGreaterThan(0);
  const ours = figures.cells.find(({ contender, workload }) => contender === OURS && workload === PLAIN.name);
  const { overheadMs, node } = ours?.rounds[0]?.records ?? {};
  expect(overheadMs?.p99).toBeGreaterThan(0);
  expect(node?.loopUtilization).toBeGreaterThan(0);
  expect(describeProxy(figures)).toContain('each once');
});

it.each([
  ['an event', 'DELETE FROM usage_events WHERE event_id = $1'],
  ['money', 'UPDATE usage_events SET cost_nano_usd = cost_nano_usd - 1 WHERE event_id = $1'],
])('fails if the ledger has lost %s', async (_what, damage) => {
  const database = await createTestDatabase();
  const events = generateEvents(100, new Date());
  await writeWithRawSql(database.url, events, 50);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query('UPDATE usage_events SET cost_nano_usd = 336000');
  const options = { priceNanoUsd: 336_000n, standstillMs: 300 };
  await expect(checkLedgerSum(database.url, 100, options)).resolves.toEqual({
    events: 100,
    nanoUsd: 33_600_000n,
  });
  await expect(checkLedgerSum(database.url, 99, options)).rejects.toThrow('the ledger has 100 events');
  await client.query(damage, [events[7]?.eventId]);
  await client.end();
  await expect(checkLedgerSum(database.url, 100, options)).rejects.toThrow('the ledger has');
  await database.drop();
});
