import { createTestDatabase, testRun } from '@weighbridge/testing';
import pg from 'pg';
import { expect, it } from 'vitest';
import { checkLedger } from './checkLedger.ts';
import { measureMetering } from './metering.ts';
import { describeMetering } from './meteringReport.ts';
import { writeRaw } from './rawFloor.ts';
import { measuredEvents } from './usage.ts';

it('measures metering by raw SQL, and finds each event once with both', { timeout: 120_000 }, async () => {
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
  [
    'money',
    'UPDATE usage_events SET cost_nano_usd = cost_nano_usd + 1 WHERE event_id = $1',
    'cost something',
  ],
  [
    'money in a bucket',
    `UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd - 1
     WHERE bucket_key = (SELECT bucket_keys[1] FROM usage_events WHERE event_id = $1)`,
    'nano-USD instead of',
  ],
])('does not pass over %s that is lost', async (_what, damage, complaint) => {
  const database = await createTestDatabase();
  const events = measuredEvents(100, new Date());
  await writeRaw(database.url, events, 30);
  await checkLedger(database.url, events);
  const client = new pg.Client({ connectionString: database.url });
  await client.connect();
  await client.query(damage, [events[7]?.eventId]);
  await client.end();
  await expect(checkLedger(database.url, events)).rejects.toThrow(complaint);
  await database.drop();
});
