import { setTimeout as sleep } from 'node:timers/promises';
import { type BucketRef, keySubject, POLICY_SUBJECT, principalSubject } from '@weighbridge/budget';
import { createDb, type Database } from '@weighbridge/database';
import { WINDOW_KINDS, windowAt } from '@weighbridge/domain';
import { createTestDatabase } from '@weighbridge/testing';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, openMonth } from '../../test/ledger.ts';
import { insertKey, insertPolicy, type PolicyRow } from '../../test/policies.ts';
import type { LedgerEvent } from '../events/usage.ts';
import { rebuildBuckets } from '../maintenance/rebuild.ts';
import { recordUsage } from '../recording/recordUsage.ts';
import { openCounter } from './openCounter.ts';

const NOW = new Date('2026-11-20T09:40:00Z');
const CREATED = new Date('2026-11-01T00:00:00Z');
const KEYS = { key_1: 'ada', key_2: 'ada', key_3: 'bob' } as const;
type KeyId = keyof typeof KEYS;
/** Key 2 was issued by key 1, and counts in its counter. */
const counterKey = (key: KeyId) => (key === 'key_2' ? 'key_1' : key);

let database: Awaited<ReturnType<typeof createTestDatabase>>;
let db: Database;
let nextEvent = 0;
beforeAll(async () => {
  database = await createTestDatabase();
  db = createDb(database.url, { applicationName: 'test', onIdleError: () => {} });
  await openMonth(db, new Date('2026-11-10T12:00:00Z'));
  for (const [key, principal] of Object.entries(KEYS)) {
    await insertKey(db, key, principal, counterKey(key as KeyId));
  }
});
afterAll(async () => {
  await db.destroy();
  await database.drop();
});

interface Usage {
  readonly key: KeyId;
  readonly admittedAt: Date;
  readonly cost: bigint;
}

function bucket(policy: PolicyRow, { key, admittedAt }: Usage): BucketRef {
  const subjects = {
    key: keySubject(counterKey(key)),
    principal: principalSubject(KEYS[key]),
    policy: POLICY_SUBJECT,
  };
  return {
    policyId: policy.id,
    counterVersion: policy.counter_version,
    subject: subjects[policy.counter_scope],
    windowStartMs: BigInt(windowStart(policy, admittedAt).getTime()),
  };
}

function windowStart(policy: PolicyRow, at: Date): Date {
  return windowAt(policy.window_kind, policy.timezone, at).start;
}

/** An event admitted under a given state of its policies. */
function event(usage: Usage, chain: readonly PolicyRow[]): LedgerEvent {
  const made = ledgerEvent(nextEvent++, { ...usage, principal: KEYS[usage.key] });
  return { ...made, buckets: chain.map((policy) => bucket(policy, usage)) };
}

async function change(
  id: string,
  to: Pick<PolicyRow, 'window_kind' | 'timezone' | 'counter_scope'>,
  now = NOW,
  beforeCommit = async () => {},
): Promise<PolicyRow> {
  return await db.transaction().execute(async (tx) => {
    const policy = await tx
      .updateTable('policies')
      .set((row) => ({ ...to, counter_version: row('counter_version', '+', 1), counter_since: now }))
      .where('id', '=', id)
      .returningAll()
      .executeTakeFirstOrThrow();
    await openCounter(tx, policy, now);
    await beforeCommit();
    return policy;
  });
}

/** The spend of the policy's current counters, by window start and subject. */
async function spent({ id, counter_version }: PolicyRow): Promise<Record<string, bigint>> {
  const rows = await db
    .selectFrom('spend_buckets')
    .selectAll()
    .where('policy_id', '=', id)
    .where('counter_version', '=', counter_version)
    .execute();
  return Object.fromEntries(
    rows.map((row) => [`${row.window_start.toISOString()} ${row.subject}`, row.spent_nano_usd]),
  );
}

/** The same, computed from the events of the windows since the one in which the counter was opened. */
function expectedSpent(policy: PolicyRow, usages: readonly Usage[]): Record<string, bigint> {
  const sums: Record<string, bigint> = {};
  for (const usage of usages) {
    const start = windowStart(policy, usage.admittedAt);
    if (start < windowStart(policy, policy.counter_since)) continue;
    for (const subject of new Set([bucket(policy, usage).subject, principalSubject(KEYS[usage.key])])) {
      const key = `${start.toISOString()} ${subject}`;
      sums[key] = (sums[key] ?? 0n) + usage.cost;
    }
  }
  return sums;
}

async function expectIdentity(): Promise<void> {
  expect(await rebuildBuckets(db, { apply: false })).toMatchObject({ differing: [], differingHours: 0 });
}

const definition = fc.record({
  window_kind: fc.constantFrom(...WINDOW_KINDS),
  timezone: fc.constantFrom('UTC', 'Asia/Kathmandu', 'America/Havana'),
  counter_scope: fc.constantFrom('key', 'principal', 'policy'),
});
const usage: fc.Arbitrary<Usage> = fc.record({
  key: fc.constantFrom('key_1', 'key_2', 'key_3'),
  // From some windows before the change to a little after it: proxies' clocks may be ahead.
  admittedAt: fc
    .oneof(fc.integer({ min: -3 * 86_400_000, max: 0 }), fc.integer({ min: -3_600_000, max: 1_800_000 }))
    .map((ms) => new Date(NOW.getTime() + ms)),
  cost: fc.bigInt({ min: 1n, max: 1_000_000n }),
});

describe('a new counter', () => {
  it('counts everything admitted in its windows, whichever counter it was admitted on, before, during or after the change', async () => {
    let round = 0;
    await fc.assert(
      fc.asyncProperty(
        fc.array(definition, { minLength: 1, maxLength: 3 }),
        fc.array(fc.array(usage, { minLength: 1, maxLength: 12 }), { minLength: 8, maxLength: 16 }),
        fc.infiniteStream(fc.integer({ min: 0, max: 12 })),
        async (definitions, batches, delays) => {
          const pause = async () => await sleep(delays.next().value);
          const own = await insertPolicy(db, `pol_own${round}`, { created_at: CREATED });
          const parent = await insertPolicy(db, `pol_parent${round++}`, { created_at: CREATED });
          // What proxies know: an old lease may be used long after a change.
          const known = [own];
          const write = async (waiting: (typeof batches)[number][]) => {
            for (const batch of waiting) {
              await pause();
              const events = batch.map((one, n) => {
                const policy = known[n % known.length] ?? own;
                const isOpen =
                  windowStart(policy, one.admittedAt) >= windowStart(policy, policy.counter_since);
                return event(one, [isOpen ? policy : own, parent]);
              });
              await recordUsage(db, eventsOnly(events));
            }
          };
          const writers = [0, 1, 2].map((writer) => write(batches.filter((_, n) => n % 3 === writer)));
          let last = own;
          for (const to of definitions) {
            await pause();
            last = await change(own.id, to, NOW, pause);
            known.push(last);
          }
          const changedParent = await change(parent.id, definitions[0] ?? own, NOW, pause);
          await Promise.all(writers);
          const usages = batches.flat();
          expect(await spent(last)).toEqual(expectedSpent(last, usages));
          expect(await spent(changedParent)).toEqual(expectedSpent(changedParent, usages));
        },
      ),
      { numRuns: 15 },
    );
    await expectIdentity();
  });

  it('does not count late events of earlier windows', async () => {
    const day = await insertPolicy(db, 'pol_day', { created_at: CREATED });
    const before: Usage = { key: 'key_1', admittedAt: new Date('2026-11-20T08:59:59Z'), cost: 5n };
    const after: Usage = { key: 'key_3', admittedAt: new Date('2026-11-20T09:00:00Z'), cost: 7n };
    await recordUsage(db, eventsOnly([event(before, [day])]));
    const hour = await change(day.id, { window_kind: 'hour', timezone: 'UTC', counter_scope: 'policy' });
    await recordUsage(db, eventsOnly([event(before, [day]), event(after, [day])]));
    expect(await spent(hour)).toEqual({
      '2026-11-20T09:00:00.000Z policy': 7n,
      '2026-11-20T09:00:00.000Z principal:bob': 7n,
    });
    await expectIdentity();
  });
});
