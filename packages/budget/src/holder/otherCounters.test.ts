import { describe, expect, it } from 'vitest';
import { bookOf, budgeted, LeaseWorld, settleDown, wanted } from '../../test/leaseWorld.ts';
import { bucketKey, OTHERS_SUBJECT, valueSubject } from '../bucketRef.ts';
import type { BudgetedPolicy } from '../policies.ts';
import { bucketsOf } from './leaseBook.ts';

const NO_FIGURES = { showsParentFigures: false };
const LIMIT = { id: 'lim_1', name: 'each user', scope: 'user', models: [], unit: undefined };

function counterOf(subject: string, limit: BudgetedPolicy['limit']): BudgetedPolicy {
  const made = budgeted('pol_1.lim_1', { windowEndMs: 86_400_000, limit });
  const bucket = { ...made.bucket, subject };
  return { ...made, bucket, bucketKey: bucketKey(bucket) };
}

const others = counterOf(OTHERS_SUBJECT, { ...LIMIT, value: undefined });
const ofUser = (value: string, keyId = 'key_1') =>
  counterOf(valueSubject('user', value), { ...LIMIT, value, opening: { keyId, others } });

/** Two counters of users, of which the key may open the first, under a policy with a budget. */
function scene() {
  const world = new LeaseWorld();
  const main = budgeted('pol_1');
  const [ann, bob] = [ofUser('ann'), ofUser('bob')];
  for (const { bucketKey: key } of [main, ann, bob]) world.limits.set(key, 1_000n);
  world.limits.set(others.bucketKey, 100n);
  world.closedTo.set(bob.bucketKey, 'key_1');
  return { world, main, ann, bob, book: bookOf(world, '1') };
}

describe('the counter of a value that its key may not open', () => {
  it('is replaced by `others`, from which the request reserves and which it is charged to', async () => {
    const { world, main, ann, bob, book } = scene();
    const own = await book.reserve([main, ann], 10n, NO_FIGURES);
    expect(own && bucketsOf(own)).toEqual([main.bucket, ann.bucket]);
    const stood = await book.reserve([main, bob], 10n, NO_FIGURES);
    expect(stood && bucketsOf(stood).map(({ subject }) => subject)).toEqual(['policy', 'others']);
    expect(world.hold(bob.bucketKey)).toBe(0n);
    const calls = world.calls;
    // From now on without a call.
    const next = book.tryReserve([main, bob], 1n);
    expect(next && bucketsOf(next)[1]?.subject).toBe('others');
    expect(world.calls).toBe(calls);
  });

  it('is opened for a key that may, beside one that may not, and then serves both', async () => {
    const { world, main, bob, book } = scene();
    const subject = async (policy: BudgetedPolicy) => {
      const reserved = await book.reserve([main, policy], 10n, NO_FIGURES);
      return reserved && bucketsOf(reserved)[1]?.subject;
    };
    expect(await subject(bob)).toBe('others');
    expect(await subject(ofUser('bob', 'key_2'))).toBe('user:bob');
    world.closedTo.clear();
    expect(await subject(bob)).toBe('user:bob');
  });

  it('refuses by the amount of `others`, without a value, and leaves nothing reserved in the rest of the set', async () => {
    const { world, main, bob, book } = scene();
    await expect(book.reserve([main, bob], 101n, NO_FIGURES)).rejects.toMatchObject({
      code: 'budget_exhausted',
      details: {
        limit_id: 'lim_1',
        limit: 'each user',
        counter_scope: 'user',
        value: null,
      },
    });
    await book.close();
    expect([world.hold(main.bucketKey), world.hold(others.bucketKey)]).toEqual([0n, 0n]);
  });

  it('is asked for again after ten seconds, since `max_counters` may be larger by then', async () => {
    const { world, main, bob } = scene();
    let nowMs = 0;
    const book = bookOf(world, '1', { nowMs: () => nowMs });
    const subject = async () => {
      const reserved = await book.reserve([main, bob], 1n, NO_FIGURES);
      if (reserved) book.settle(reserved, 1n);
      return reserved && bucketsOf(reserved)[1]?.subject;
    };
    expect(await subject()).toBe('others');
    world.closedTo.clear();
    expect(await subject()).toBe('others');
    nowMs = 9_999;
    expect(await subject()).toBe('others');
    nowMs = 10_001;
    expect(await subject()).toBe('user:bob');
  });

  it('is forgotten without a trace, however many values are invented', async () => {
    const { world, main } = scene();
    let nowMs = 0;
    const book = bookOf(world, '1', { nowMs: () => nowMs });
    for (let n = 0; n < 20; n++) {
      const invented = ofUser(`invented-${n}`);
      world.limits.set(invented.bucketKey, 1_000n);
      world.closedTo.set(invented.bucketKey, 'key_1');
      const reserved = await book.reserve([main, invented], 1n, NO_FIGURES);
      if (reserved) book.settle(reserved, 1n);
    }
    expect(book.size).toBe(22);
    for (let second = 0; second < 400; second++) {
      nowMs += 1_000;
      book.everySecond();
      await settleDown();
    }
    // The policy's own and `others`.
    expect([book.size, book.forgotten]).toEqual([0, 2]);
  });

  it('has the headroom of `others`', async () => {
    const { main, bob, book } = scene();
    expect(await book.headroom([main, bob], wanted(100n, 1n))).toMatchObject({ nanoUsd: 100n });
  });
});

it('a refusal names the limit and the value of the caller', async () => {
  const { world, ann, book } = scene();
  world.spent.set(ann.bucketKey, 1_000n);
  await expect(book.reserve([ann], 1n, NO_FIGURES)).rejects.toMatchObject({
    code: 'budget_exhausted',
    message: expect.stringContaining('the limit each user for user ann'),
    details: { policy_id: 'pol_1', limit_id: 'lim_1', value: 'ann', reset: '1970-01-02T00:00:00.000Z' },
  });
});
