import { randomUUID } from 'node:crypto';
import { expect, it } from 'vitest';
import { rangesOnly, useLedger, uuidAt } from '../../test/ledger.ts';
import type { ReceivedRange } from '../events/usage.ts';
import { readLedgerState } from '../maintenance/readLedgerState.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { readSpend } from '../spend/readSpend.ts';
import { ledgerAsOf } from './ledgerAsOf.ts';
import { listProducers } from './listProducers.ts';
import {
  closeEpoch,
  markLost,
  pruneProducers,
  recordWatermarks,
  registerProducer,
  retireProducer,
} from './producers.ts';

const ledger = useLedger();
const MINUTE_MS = 60_000;
const ago = (minutes: number) => new Date(Date.now() - minutes * MINUTE_MS);

interface Run {
  readonly producerId: string;
  readonly epoch: string;
}
const runSince = (minutes: number, producerId: string = randomUUID()): Run => ({
  producerId,
  epoch: uuidAt(ago(minutes)),
});
const register = (run: Run, now = new Date()) => registerProducer(ledger.db, { ...run, name: 'host', now });
const mark = (run: Run, markAt: Date, seenAt = new Date()) =>
  recordWatermarks(ledger.db, [{ ...run, markAt, seenAt }]);
const range = (run: Run, firstN: number, count: number): ReceivedRange => ({
  ...run,
  shard: 1,
  firstN: BigInt(firstN),
  count,
});
const isComplete = async (windowStart = ago(120)) =>
  (
    await readSpend(
      ledger.db,
      {
        policyId: 'pol_a',
        counterVersion: 1,
        subject: 'policy',
        windowStartMs: BigInt(windowStart.getTime()),
      },
      'ada',
    )
  ).principalComplete;
const stateOf = async ({ epoch }: Run) => (await listed(epoch))?.state;
const listed = async (epoch: string) =>
  (await listProducers(ledger.db, { limit: 10 })).find((producer) => producer.epoch === epoch);

it('without open producers, usage is complete up to the time of the query', async () => {
  const before = Date.now();
  expect((await ledgerAsOf(ledger.db)).getTime()).toBeGreaterThanOrEqual(before - MINUTE_MS);
  const spend = await readSpend(
    ledger.db,
    { policyId: 'pol_a', counterVersion: 1, subject: 'policy', windowStartMs: BigInt(ago(120).getTime()) },
    'ada',
  );
  expect(spend).toMatchObject({ spent: 0n, principalSpent: 0n, principalComplete: true });
  expect(spend.asOf).toEqual(spend.queriedAt);
});

it('usage is complete up to the lowest watermark of open epochs, and a watermark never decreases', async () => {
  const [slow, fast] = [runSince(60), runSince(30)];
  await register(slow);
  await register(fast);
  // Only their start is known yet.
  expect(await ledgerAsOf(ledger.db)).toEqual(beganAt(slow));
  await mark(slow, ago(10));
  await mark(fast, ago(2));
  const tenAgo = await ledgerAsOf(ledger.db);
  expect(Math.abs(tenAgo.getTime() - ago(10).getTime())).toBeLessThan(MINUTE_MS);
  await mark(slow, ago(20));
  // A clock that is ahead moves no watermark into the future.
  await mark(fast, new Date(Date.now() + 60 * MINUTE_MS));
  expect(await ledgerAsOf(ledger.db)).toEqual(tenAgo);
  await mark(slow, ago(1));
  expect((await ledgerAsOf(ledger.db)).getTime()).toBeGreaterThan(tenAgo.getTime());
  expect((await ledgerAsOf(ledger.db)).getTime()).toBeLessThanOrEqual(Date.now());
});

it('events of an unregistered epoch hold completeness back to the start of that epoch', async () => {
  const unknown = runSince(45);
  await recordUsage(ledger.db, rangesOnly(range(unknown, 1, 3)));
  expect(await ledgerAsOf(ledger.db)).toEqual(beganAt(unknown));
  expect(await closeEpoch(ledger.db, { ...unknown, lastN: [0n, 3n, 0n, 0n], now: new Date() })).toBe(true);
  // A closed epoch holds nothing back.
  expect((await ledgerAsOf(ledger.db)).getTime()).toBeGreaterThan(ago(1).getTime());
});

it('a process that takes a spool over supersedes the earlier epochs, which stay open until the ledger has all of their events', async () => {
  const first = runSince(60);
  const second = runSince(5, first.producerId);
  expect(await register(first)).toBe('registered');
  expect(await register(second)).toBe('registered');
  expect(await register(second)).toBe('registered');
  expect(await register(first)).toBe('superseded');
  expect(await stateOf(first)).toBe('open');
  expect((await listed(first.epoch))?.superseded_by).toBe(second.epoch);
  // Nor does it reopen a lost epoch.
  await markLost(ledger.db, { silentSince: new Date(Date.now() + MINUTE_MS), now: new Date() });
  expect(await register(first)).toBe('superseded');
  expect([await stateOf(first), await stateOf(second)]).toEqual(['lost', 'lost']);
  // Another spool is not affected.
  const other = runSince(60);
  await register(other);
  expect((await listed(other.epoch))?.superseded_by).toBeNull();
});

it('a process in a closed epoch is superseded, and supersedes none', async () => {
  const copied = runSince(60);
  await register(copied);
  expect(await closeEpoch(ledger.db, { ...copied, lastN: [0n, 0n, 0n, 0n], now: new Date() })).toBe(true);
  const next = runSince(5, copied.producerId);
  await register(next);
  expect(await register(copied)).toBe('superseded');
  expect((await listed(next.epoch))?.superseded_by).toBeNull();
  const alone = runSince(60);
  await register(alone);
  await closeEpoch(ledger.db, { ...alone, lastN: [0n, 0n, 0n, 0n], now: new Date() });
  expect(await register(alone)).toBe('superseded');
  expect(await stateOf(alone)).toBe('closed');
});

it('of two processes that take a spool over at the same time, only one keeps it', async () => {
  for (let round = 0; round < 10; round++) {
    const producerId = randomUUID();
    const runs = [runSince(3, producerId), runSince(2, producerId), runSince(1, producerId)];
    await Promise.all(runs.map((run) => register(run)));
    const rows = await ledger.db
      .selectFrom('producers')
      .selectAll()
      .where('producer_id', '=', producerId)
      .execute();
    expect(rows.filter((row) => row.superseded_by === null)).toHaveLength(1);
  }
});

it('a silent epoch is lost: it holds nothing back, and its windows are incomplete until a replay', async () => {
  const run = runSince(90);
  await register(run);
  await recordUsage(ledger.db, rangesOnly(range(run, 1, 2), range(run, 4, 1)));
  const silentSince = ago(25);
  expect((await markLost(ledger.db, { silentSince, now: new Date() })).map(({ epoch }) => epoch)).toEqual([]);
  await ledger.db
    .updateTable('producers')
    .set({ last_seen_at: ago(26) })
    .execute();
  expect(await isComplete()).toBe(true);

  expect((await markLost(ledger.db, { silentSince, now: new Date() })).map(({ epoch }) => epoch)).toEqual([
    run.epoch,
  ]);
  expect(await isComplete()).toBe(false);
  // A window that starts after the loss is complete.
  expect(await isComplete(new Date(Date.now() + MINUTE_MS))).toBe(true);
  expect((await ledgerAsOf(ledger.db)).getTime()).toBeGreaterThan(ago(1).getTime());
  expect(await readLedgerState(ledger.db)).toMatchObject({ openProducers: 0, lostProducers: 1, gaps: 1 });

  // A replay of its spool delivers the missing events and declares the last number.
  await recordUsage(ledger.db, rangesOnly(range(run, 3, 1)));
  expect(await stateOf(run)).toBe('lost');
  expect(await closeEpoch(ledger.db, { ...run, lastN: [0n, 5n, 0n, 0n], now: new Date() })).toBe(false);
  await recordUsage(ledger.db, rangesOnly(range(run, 5, 1)));
  expect(await stateOf(run)).toBe('closed');
  expect(await isComplete()).toBe(true);
});

it('an accepted loss makes windows complete again, and late events are still recorded', async () => {
  const run = runSince(90);
  await register(run);
  const retire = () => retireProducer(ledger.db, { epoch: run.epoch, retiredBy: 'grace', now: new Date() });
  expect(await retire()).toBeUndefined();
  await recordUsage(ledger.db, rangesOnly(range(run, 3, 1)));
  await markLost(ledger.db, { silentSince: new Date(Date.now() + MINUTE_MS), now: new Date() });
  expect(await retire()).toMatchObject({ state: 'retired', retired_by: 'grace' });
  expect(await retire()).toBeUndefined();
  expect(await isComplete()).toBe(true);
  const { acks } = await recordUsage(ledger.db, rangesOnly(range(run, 1, 2)));
  expect(acks).toMatchObject([{ n: 3n }]);
  expect(await stateOf(run)).toBe('retired');
  // The spool is found, and has no further events: nothing was lost.
  expect(await closeEpoch(ledger.db, { ...run, lastN: [0n, 3n, 0n, 0n], now: new Date() })).toBe(true);
  expect(await stateOf(run)).toBe('closed');
});

it('a lost epoch that reports again is open again', async () => {
  const [greeting, reporting] = [runSince(90), runSince(90)];
  for (const run of [greeting, reporting]) await register(run, ago(30));
  await markLost(ledger.db, { silentSince: ago(25), now: new Date() });
  await register(greeting);
  await mark(reporting, ago(1));
  expect([await stateOf(greeting), await stateOf(reporting)]).toEqual(['open', 'open']);
  expect((await ledgerAsOf(ledger.db)).getTime()).toBeLessThan(ago(80).getTime());
});

it('a gap lists the missing numbers, makes spend incomplete if it lasts, and disappears when it is filled', async () => {
  const run = runSince(10);
  await register(run);
  await recordUsage(ledger.db, rangesOnly(range(run, 1, 2), range(run, 4, 2), range(run, 9, 1)));
  const [shard] = (await listed(run.epoch))?.shards ?? [];
  expect(shard).toMatchObject({ shard: 1, recordedN: 2n, lastN: null, missing: '{[3,4),[6,9)}' });
  // A short gap is normal: batches overtake each other.
  expect(await isComplete()).toBe(true);
  await ledger.db
    .updateTable('producer_shards')
    .set({ gap_since: ago(2) })
    .execute();
  expect(await isComplete()).toBe(false);
  expect((await readLedgerState(ledger.db)).longestGapMs).toBeGreaterThan(MINUTE_MS);
  await recordUsage(ledger.db, rangesOnly(range(run, 3, 6)));
  expect((await listed(run.epoch))?.shards).toMatchObject([{ recordedN: 9n, missing: '{}', gapSince: null }]);
  expect(await isComplete()).toBe(true);
});

it('ended epochs are deleted after a time; open and lost ones are not', async () => {
  const [closed, open, lost] = [runSince(90), runSince(90), runSince(90)];
  await register(lost, ago(60));
  await markLost(ledger.db, { silentSince: ago(50), now: ago(40) });
  for (const run of [closed, open]) await recordUsage(ledger.db, rangesOnly(range(run, 1, 1)));
  await closeEpoch(ledger.db, { ...closed, lastN: [0n, 1n, 0n, 0n], now: new Date() });
  await pruneProducers(ledger.db, { endedBefore: ago(1) });
  expect(await listProducers(ledger.db, { limit: 10 })).toHaveLength(3);
  await pruneProducers(ledger.db, { endedBefore: new Date(Date.now() + MINUTE_MS) });
  const left = await listProducers(ledger.db, { limit: 10 });
  expect(left.map(({ state }) => state).sort()).toEqual(['lost', 'open']);
});

it('epochs are listed by page, the newest first, filtered by state', async () => {
  const runs = [runSince(1), runSince(2), runSince(3)];
  for (const run of runs) await register(run);
  const page = async (after?: string) =>
    (await listProducers(ledger.db, { limit: 2, after, states: ['open'] })).map(({ epoch }) => epoch);
  expect(await page()).toEqual([runs[0]?.epoch, runs[1]?.epoch]);
  expect(await page(runs[1]?.epoch)).toEqual([runs[2]?.epoch]);
  expect(await listProducers(ledger.db, { limit: 2, states: ['lost', 'retired'] })).toEqual([]);
});

/** The start of a run, from its epoch's UUIDv7. */
function beganAt({ epoch }: Run): Date {
  return new Date(Number.parseInt(epoch.slice(0, 8) + epoch.slice(9, 13), 16));
}
