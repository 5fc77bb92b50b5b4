import { type BucketRef, bucketKey, furtherLimitId, POLICY_SUBJECT, valueSubject } from '@weighbridge/budget';
import { createDb } from '@weighbridge/database';
import { expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, useLedger } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { foldWindows } from '../maintenance/foldWindows.ts';
import { pruneWindowStarts } from '../maintenance/pruneWindowStarts.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import { registerProducer } from '../producers/producers.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { answerLeaseCalls } from './answerLeaseCalls.ts';
import { answerWindowCalls } from './firstUseWindows.ts';

const ledger = useLedger();
const NOW = new Date('2026-11-10T12:00:00Z');
const HOUR_MS = 3_600_000;
const after = (hours: number) => new Date(NOW.getTime() + hours * HOUR_MS);
let nextId = 0;
const uuid = (n: number) => `019a6c00-0000-7000-9000-${n.toString(16).padStart(12, '0')}`;

/** A policy with a limit of 100 nano-USD and 3 requests in windows of five hours from the first use; returns its id. */
async function limited(fields: object = {}): Promise<string> {
  const id = `pol_first${++nextId}`;
  const limit = {
    ...{ id: 'lim_1', name: 'session', counter_version: 1, timezone: 'UTC' },
    ...{
      window_kind: 'first_use',
      window_every: '5h',
      enforcement: 'enforce',
      thresholds: [],
      max_counters: 2,
    },
    ...{ limit_nano_usd: '100', others_limit_nano_usd: '100', limit_requests: 3 },
    ...fields,
  };
  const policy = { limit_nano_usd: 1_000n, limits: [limit], created_at: NOW };
  await insertPolicy(ledger.db, id, { ...policy, counter_scope: 'policy' });
  return furtherLimitId(id, 'lim_1');
}

const counter = (policyId: string, subject: string = POLICY_SUBJECT) => ({
  policyId,
  counterVersion: 1,
  subject,
});

async function ask(
  policyId: string,
  at: Date,
  opens: boolean,
  of: { subject?: string; keyId?: string } = {},
) {
  const call = { bucket: counter(policyId, of.subject), keyId: of.keyId ?? '', opens };
  const [answer] = await answerWindowCalls(ledger.db, [call], at);
  return [answer?.outcome, answer?.start?.toISOString()];
}

async function holder() {
  const made = { producerId: uuid(++nextId), epoch: uuid(++nextId) };
  await registerProducer(ledger.db, { ...made, name: '', now: NOW });
  return made;
}

async function lease(by: Awaited<ReturnType<typeof holder>>, bucket: BucketRef, now: Date, amount = 1n) {
  const call = {
    bucket,
    seq: BigInt(++nextId),
    returnedNanoUsd: 0n,
    wantNanoUsd: amount,
    minimumNanoUsd: amount,
  };
  const [result] = await answerLeaseCalls(ledger.db, { ...by, calls: [call], now });
  return result?.outcome;
}

it('a window opens when it is asked to, is the same for all that ask, and the next opens once it is over', async () => {
  const id = await limited();
  expect(await ask(id, NOW, false)).toEqual(['unopened', undefined]);
  expect(await ask(id, NOW, true)).toEqual(['open', NOW.toISOString()]);
  expect(await ask(id, after(4.9), true)).toEqual(['open', NOW.toISOString()]);
  // The amounts of a limit share its windows.
  expect(await ask(`${id}.requests`, after(1), true)).toEqual(['open', NOW.toISOString()]);
  expect(await ask(id, after(5), false)).toEqual(['unopened', undefined]);
  expect(await ask(id, after(7), true)).toEqual(['open', after(7).toISOString()]);
  expect(await ask(`${id}.tokens`, after(7), true)).toEqual(['replaced', undefined]);
  expect(await ask(await limited({ counter_version: 2 }), NOW, true)).toEqual(['replaced', undefined]);
});

it('one window opens for many that open it at once, at different control planes', async () => {
  const planes = Array.from({ length: 6 }, () =>
    createDb(ledger.url, { applicationName: 'control plane', onIdleError: () => {} }),
  );
  try {
    for (let times = 0; times < 10; times++) {
      const id = await limited();
      const call = { bucket: counter(id), keyId: '', opens: true };
      const answers = await Promise.all(
        planes.map((db, at) => answerWindowCalls(db, [call], after(at / 1_000))),
      );
      expect(new Set(answers.map(([answer]) => answer?.start?.getTime())).size).toBe(1);
    }
  } finally {
    for (const db of planes) await db.destroy();
  }
});

it('leases are granted in the window that is open, and in none that a proxy names', async () => {
  const [by, id] = [await holder(), await limited()];
  const at = (start: Date) => ({ ...counter(id), windowStartMs: BigInt(start.getTime()) });
  await ask(id, NOW, true);
  expect(await lease(by, at(NOW), after(1), 100n)).toBe('granted');
  expect(await lease(by, at(NOW), after(1), 1n)).toBe('contended');
  expect(await lease(by, at(after(1)), after(1))).toBe('replaced');
  expect(await lease(by, at(NOW), after(5))).toBe('replaced');
  await ask(id, after(6), true);
  expect(await lease(by, at(NOW), after(6))).toBe('replaced');
  expect(await lease(by, at(after(6)), after(6), 100n)).toBe('granted');
});

it('what was admitted in a window counts in it whenever it arrives, and the rebuild finds it there', async () => {
  const [by, id] = [await holder(), await limited()];
  const bucket = { ...counter(id), windowStartMs: BigInt(NOW.getTime()) };
  await ask(id, NOW, true);
  await lease(by, bucket, NOW, 60n);
  await ask(id, after(8), true);
  const { row } = ledgerEvent(++nextId, { cost: 40n, admittedAt: after(1) });
  const own = { ...row, producer_id: by.producerId, epoch: by.epoch, shard: 0, n: 1n };
  await recordUsage(ledger.db, eventsOnly([{ row: own, buckets: [bucket] }]), after(8));
  const spent = async () =>
    await ledger.db
      .selectFrom('spend_buckets')
      .select(['spent_nano_usd', 'leased_nano_usd'])
      .where('bucket_key', '=', bucketKey(bucket))
      .executeTakeFirst();
  expect(await spent()).toEqual({ spent_nano_usd: 40n, leased_nano_usd: 20n });
  expect(await rebuildBuckets(ledger.db, { apply: false })).toMatchObject({ differingBuckets: 0 });
  // Not before its own end, although other limits have shorter windows.
  const [early, late] = [after(4), after(6)];
  const fold = (before: Date) => foldWindows(ledger.db, { leasesBefore: before, foldBefore: before });
  await ledger.db.deleteFrom('budget_leases').where('bucket_key', '=', bucketKey(bucket)).execute();
  await fold(early);
  expect(await spent()).toBeDefined();
  await fold(late);
  expect(await spent()).toBeUndefined();
});

it('a key opens so many windows of values in the time of one, and others stand in for further values', async () => {
  const id = await limited();
  const open = (name: string, at: Date, keyId = 'key_1') =>
    ask(id, at, true, { subject: valueSubject('user', name), keyId }).then(([outcome]) => outcome);
  // Noon is a multiple of five hours since 1970.
  expect(await open('ann', after(0.5))).toBe('open');
  expect(await open('bob', after(1))).toBe('open');
  expect(await open('cy', after(2))).toBe('others');
  expect(await open('ann', after(2))).toBe('open');
  expect(await open('cy', after(2), 'key_2')).toBe('open');
  expect(await open('cy', after(2))).toBe('open');
  expect(await open('dan', after(4))).toBe('others');
  expect(await open('dan', after(5))).toBe('open');
});

it('starts are kept while the ledger has rows of their time', async () => {
  const id = await limited();
  await ask(id, NOW, true);
  const kept = async () => {
    const rows = ledger.db.selectFrom('window_starts').selectAll().where('limit_id', '=', id);
    return (await rows.execute()).length;
  };
  await pruneWindowStarts(ledger.db, after(24 * 365));
  expect(await kept()).toBe(1);
  const before = await ledger.db.selectFrom('ledger_floor').select('dropped_before').executeTakeFirst();
  await ledger.db
    .updateTable('ledger_floor')
    .set({ dropped_before: after(1) })
    .execute();
  await pruneWindowStarts(ledger.db, after(24 * 80));
  expect(await kept()).toBe(1);
  await pruneWindowStarts(ledger.db, after(24 * 365));
  expect(await kept()).toBe(0);
  await ledger.db
    .updateTable('ledger_floor')
    .set({ dropped_before: before?.dropped_before ?? null })
    .execute();
});
