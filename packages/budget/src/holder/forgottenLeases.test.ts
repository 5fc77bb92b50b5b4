import { describe, expect, it } from 'vitest';
import { bookOf, budgeted, LeaseWorld, settleDown } from '../../test/leaseWorld.ts';
import type { BudgetedPolicy } from '../policies.ts';
import { ForgottenLeases } from './forgottenLeases.ts';
import { Lease } from './lease.ts';
import type { LeaseBook } from './leaseBook.ts';

const HOUR_MS = 3_600_000;
const ASKED = { showsParentFigures: true };

/** A book whose clock can be put ahead. */
function clockedBook(world: LeaseWorld, epoch = '1') {
  const clock = { ms: 0, wallMs: 0 };
  const book = bookOf(world, epoch, {
    nowMs: () => performance.now() + clock.ms,
    clockMs: () => clock.wallMs,
  });
  const idle = async (seconds: number) => {
    for (let second = 0; second < seconds; second++) {
      clock.ms += 1_000;
      book.everySecond();
      await settleDown();
    }
  };
  return { book, clock, idle };
}

async function spend(world: LeaseWorld, book: LeaseBook, policy: BudgetedPolicy, cost: bigint) {
  const held = await book.reserve([policy], cost, ASKED);
  if (!held) throw new Error('the reservation failed');
  book.settle(held, cost);
  world.record([policy.bucketKey], '1', cost);
}

/** How much a book can reserve before it is refused. */
async function spendAll(world: LeaseWorld, book: LeaseBook, policy: BudgetedPolicy): Promise<bigint> {
  for (let spent = 0n; ; spent += 10n) {
    const isSpent = await spend(world, book, policy, 10n).then(
      () => true,
      () => false,
    );
    if (!isSpent) return spent;
  }
}

describe('a lease that no request asks for', () => {
  it('is returned after half a minute and forgotten after five, and the next request waits for one call', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p', { windowEndMs: HOUR_MS });
    world.limits.set(policy.bucketKey, 1_000n);
    const { book, idle } = clockedBook(world);
    await spend(world, book, policy, 100n);
    expect(world.hold(policy.bucketKey)).toBeGreaterThan(0n);
    await idle(40);
    expect([world.hold(policy.bucketKey), book.size, book.forgotten]).toEqual([0n, 1, 0]);
    await idle(270);
    expect([book.size, book.forgotten]).toEqual([0, 1]);

    const calls = world.calls;
    await spend(world, book, policy, 100n);
    expect([world.calls - calls, book.size, book.forgotten]).toEqual([1, 1, 0]);
    // What it spent and returned before is not lent again.
    expect(await spendAll(world, book, policy)).toBe(800n);
  });

  it('owes what its attempts cost above their reservations', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const { book, idle } = clockedBook(world);
    const held = await book.reserve([policy], 250n, ASKED);
    if (!held) throw new Error('the reservation failed');
    book.settle(held, 600n);
    world.record([policy.bucketKey], '1', 600n);
    await idle(310);
    expect(book.forgotten).toBe(1);
    expect(await spendAll(world, book, policy)).toBe(400n);
  });

  it('stays while an attempt runs on it, even one that reserved nothing', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const { book, idle } = clockedBook(world);
    await spend(world, book, policy, 100n);
    const held = book.tryReserve([policy], 0n);
    if (!held) throw new Error('the reservation failed');
    await idle(400);
    expect([world.hold(policy.bucketKey), book.size, book.forgotten]).toEqual([0n, 1, 0]);
    book.settle(held, 50n);
    world.record([policy.bucketKey], '1', 50n);
    await idle(2);
    expect([book.size, book.forgotten]).toEqual([0, 1]);
    expect(await spendAll(world, book, policy)).toBe(850n);
  });

  it('stays while its return is not acknowledged', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const { book, idle } = clockedBook(world);
    await spend(world, book, policy, 100n);
    world.isDown = true;
    await idle(400);
    expect([book.size, book.forgotten]).toEqual([1, 0]);
    world.isDown = false;
    await idle(2);
    expect([world.hold(policy.bucketKey), book.size, book.forgotten]).toEqual([0n, 0, 1]);
  });

  it('goes on in the process that continues the epoch', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p/with a slash');
    world.limits.set(policy.bucketKey, 1_000n);
    const first = clockedBook(world);
    await spend(world, first.book, policy, 300n);
    await first.idle(310);
    expect(first.book.forgotten).toBe(1);
    const second = clockedBook(world);
    second.book.restore(JSON.parse(JSON.stringify(first.book.toPersisted())));
    expect(await spendAll(world, second.book, policy)).toBe(700n);
  });

  it('is one of many: a second returns at most one call of them, and all in turn', async () => {
    const world = new LeaseWorld();
    const policies = Array.from({ length: 1_200 }, (_, key) => budgeted(`p${key}`));
    const { book, clock, idle } = clockedBook(world);
    for (const policy of policies) {
      world.limits.set(policy.bucketKey, 1_000n);
      await spend(world, book, policy, 100n);
    }
    const held = () => policies.filter(({ bucketKey }) => world.hold(bucketKey) > 0n).length;
    clock.ms += 31_000;
    const left: number[] = [];
    for (let second = 0; second < 3; second++) {
      const calls = world.calls;
      await idle(1);
      expect(world.calls - calls).toBe(1);
      left.push(held());
    }
    expect(left).toEqual([700, 200, 0]);
    clock.ms += 300_000;
    await idle(6);
    expect([book.size, book.forgotten]).toEqual([0, 1_200]);
  });

  it('is dropped an hour after its window ended', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p', { windowEndMs: HOUR_MS });
    world.limits.set(policy.bucketKey, 1_000n);
    const { book, clock, idle } = clockedBook(world);
    await spend(world, book, policy, 100n);
    await idle(310);
    clock.wallMs = 2 * HOUR_MS;
    await idle(2);
    expect(book.forgotten).toBe(1);
    clock.wallMs++;
    await idle(2);
    expect(book.forgotten).toBe(0);
  });
});

describe('a lease with a standing part', () => {
  const DAY_S = 86_400;
  const quiet = async (world: LeaseWorld, windowEndMs?: number) => {
    world.standing = 40n;
    const policy = budgeted('p', windowEndMs === undefined ? {} : { windowEndMs });
    world.limits.set(policy.bucketKey, 1_000n);
    const clocked = clockedBook(world);
    await spend(world, clocked.book, policy, 100n);
    await clocked.idle(310);
    expect([world.hold(policy.bucketKey), clocked.book.size, clocked.book.forgotten]).toEqual([40n, 0, 1]);
    return { ...clocked, policy };
  };

  it('keeps it, and serves by it while the control plane is away, and no more', async () => {
    const world = new LeaseWorld();
    const { book, policy } = await quiet(world);
    world.isDown = true;
    expect(await spendAll(world, book, policy)).toBe(40n);
    world.isDown = false;
    expect(await spendAll(world, book, policy)).toBe(860n);
  });

  it('asks for more once half of it is used up, and makes no call before', async () => {
    const world = new LeaseWorld();
    const { book, policy, idle } = await quiet(world);
    const calls = world.calls;
    for (let request = 0; request < 2; request++) {
      const reserved = book.tryReserve([policy], 10n);
      if (!reserved) throw new Error('the lease is too small');
      book.settle(reserved, 9n);
      world.record([policy.bucketKey], '1', 9n);
      await idle(310);
    }
    expect([world.calls - calls, world.hold(policy.bucketKey)]).toEqual([0, 22n]);
    expect(book.tryReserve([policy], 3n)).toBeDefined();
    await settleDown();
    expect(world.calls - calls).toBe(1);
    expect(world.hold(policy.bucketKey)).toBeGreaterThan(40n);
  });

  it('gives it up where others need it', async () => {
    const world = new LeaseWorld();
    const { book, policy } = await quiet(world);
    book.reclaim([policy.bucket]);
    await settleDown();
    expect(world.hold(policy.bucketKey)).toBe(0n);
  });

  it('gives it up after a day without a request, after its window, and at the end of the process', async () => {
    const [old, over, ended] = [new LeaseWorld(), new LeaseWorld(), new LeaseWorld()];
    const first = await quiet(old);
    first.clock.ms += DAY_S * 1_000;
    await first.idle(3);
    expect(old.hold(first.policy.bucketKey)).toBe(0n);
    const second = await quiet(over, HOUR_MS);
    second.clock.wallMs = HOUR_MS;
    await second.idle(3);
    expect(over.hold(second.policy.bucketKey)).toBe(0n);
    const third = await quiet(ended);
    await third.book.close();
    expect(ended.hold(third.policy.bucketKey)).toBe(0n);
  });

  it('has it in the process that continues the epoch', async () => {
    const world = new LeaseWorld();
    const { book, policy } = await quiet(world);
    const next = clockedBook(world);
    next.book.restore(JSON.parse(JSON.stringify(book.toPersisted())));
    world.isDown = true;
    expect(await spendAll(world, next.book, policy)).toBe(40n);
  });
});

it('keeps the figures of a bucket whatever its subject is', () => {
  const forgotten = new ForgottenLeases();
  const figures = { granted: '90071992547409910', returned: '3', used: '7' };
  const { bucket } = budgeted('p');
  const slashed = { ...bucket, subject: 'principal:a/b c', windowStartMs: -5n, counterVersion: 12 };
  forgotten.add('p/12/-5/principal:a/b c', Lease.remembered(slashed, figures, 0), undefined);
  expect(forgotten.toPersisted()).toEqual([{ bucket: ['p', 12, 'principal:a/b c', '-5'], ...figures }]);
  expect(forgotten.take('p/12/-5/principal:a/b c')?.toPersisted()).toMatchObject(figures);
  expect(forgotten.size).toBe(0);
});
