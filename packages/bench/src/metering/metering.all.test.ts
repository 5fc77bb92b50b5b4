import { createTestDatabase, testRun } from '@weighbridge/testing';
import pg from 'pg';
import { expect, it } from 'vitest';
import { checkLedger } from '../shared/checkLedger.ts';
import { generateEvents } from '../shared/generateUsage.ts';
import { measureMetering } from './metering.ts';
import { describeMetering } from './meteringReport.ts';
import { writeWithRawSql } from './rawSql.ts';

it('measures metering relative to raw SQL, and finds each event once in both ledgers', {
  timeout: 120_000,
}, async () => {
  const figures = await measureMetering(testRun(), {
    events: 1_500,
    producers: 20,
    repeats: 1,
    onProgress: () => {},
  });
  for (const { oneProducer, manyProducers, ratio } of [figures.beside, figures.drained]) {
    for (const { median } of [oneProducer.rate, manyProducers.rate, ratio]) expect(median).toBeGreaterThan(0);
  }
  expect(describeMetering(figures)).toContain('drained: one producer / raw SQL: ');
});

it.each([
  ['an event', 'DELETE FROM usage_events WHERE event_id = $1', '1 events are missing'],
  ['money', 'UPDATE usage_events SET cost_nano_usd = cost_nano_usd + 1 WHERE event_id = $1', 'another cost'],
  [
    'money in a bucket',
    `UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd - 1
     WHERE bucket_key = (SELECT bucket_keys[1] FROM usage_events WHERE event_id = $1)`,
    'nano-USD instead of',
  ],
])('fails if the ledger has lost %s', async (_what, damage, complaint) => {
  const database = await createTestDatabase();
  const events = generateEvents(100, new Date());
  await writeWithRawSql(database.url, events, 30);
  await checkLedger(database.url, events);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(damage, [events[7]?.eventId]);
  await client.end();
  await expect(checkLedger(database.url, events)).rejects.toThrow(complaint);
  await database.drop();
});
