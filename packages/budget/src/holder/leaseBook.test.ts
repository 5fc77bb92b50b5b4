import { AppError } from '@weighbridge/errors';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { bookOf, budgeted, LeaseWorld, settleDown, wanted } from '../../test/leaseWorld.ts';
import type { LeaseBookDeps } from './leaseBook.ts';

describe('the lease book', () => {
  it('reserves from all buckets or from none', async () => {
    const world = new LeaseWorld();
    const [leaf, parent] = [budgeted('leaf'), budgeted('parent', { isGoverning: false })];
    world.limits.set(leaf.bucketKey, 1_000n).set(parent.bucketKey, 5n);
    const book = bookOf(world, '1');
    await expect(book.reserve([leaf, parent], 10n, { showsParentFigures: false })).rejects.toMatchObject({
      code: 'budget_exhausted',
      // Only operators see a parent's figures.
      details: { reset: null },
    });
    const all = await book.reserve([leaf], 250n, { showsParentFigures: false });
    expect(all?.amountNanoUsd).toBe(250n);
  });

  it("refuses with the control plane's figures, and says that a retry does not help", async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p', { windowEndMs: 86_400_000 });
    world.limits.set(policy.bucketKey, 10_000n);
    world.spent.set(policy.bucketKey, 9_000n);
    const refusal = await bookOf(world, '1')
      .reserve([policy], 1_001n, { showsParentFigures: false })
      .catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(AppError);
    expect(refusal).toMatchObject({
      code: 'budget_exhausted',
      details: { policy_id: 'p', limit_micro_usd: 10, spent_micro_usd: 9, reset: '1970-01-02T00:00:00.000Z' },
      headers: { 'x-should-retry': 'false' },
    });
  });

  it('computes headroom from what others return, not only from what they left', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p', { isHard: true });
    world.limits.set(policy.bucketKey, 100n);
    let ahead = 0;
    const nowMs = () => performance.now() + ahead;
    const [one, other] = [bookOf(world, '1', { nowMs }), bookOf(world, '2', { nowMs })];
    const held = await one.reserve([policy], 99n, { showsParentFigures: true });
    if (!held) throw new Error('the reservation failed');
    const waiting = other.headroom([policy], wanted(50n, 10n));
    await settleDown();
    one.settle(held, 3n);
    world.record([policy.bucketKey], '1', 3n);
    one.reclaim([policy.bucket]);
    expect(await waiting).toMatchObject({ nanoUsd: 97n });

    ahead = 1_001;
    const again = await one.reserve([policy], 40n, { showsParentFigures: true });
    expect(again).toBeDefined();
    const rest = other.headroom([policy], wanted(95n, 10n));
    const refused = other.headroom([policy], wanted(95n, 90n)).catch((error: unknown) => error);
    await settleDown();
    ahead = 2_002;
    expect(await rest).toMatchObject({ nanoUsd: 57n });
    expect(await refused).toMatchObject({ code: 'budget_contended' });
    // Spent budget does not come back, so there is no wait.
    expect(await other.headroom([policy], wanted(200n, 150n))).toMatchObject({ nanoUsd: 57n });
  });

  it('waits for budget that others hold, reserves it when returned, and otherwise refuses it as contended', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 100n);
    let ahead = 0;
    const nowMs = () => performance.now() + ahead;
    const [one, other] = [bookOf(world, '1', { nowMs }), bookOf(world, '2', { nowMs })];
    const held = await one.reserve([policy], 100n, { showsParentFigures: false });
    if (!held) throw new Error('the reservation failed');
    const waiting = other.reserve([policy], 10n, { showsParentFigures: false });
    await settleDown();
    one.settle(held, 0n);
    one.reclaim([policy.bucket]);
    expect((await waiting)?.amountNanoUsd).toBe(10n);

    const rest = await one.reserve([policy], 60n, { showsParentFigures: false });
    expect(rest).toBeDefined();
    const refused = other
      .reserve([policy], 90n, { showsParentFigures: false })
      .catch((error: unknown) => error);
    await settleDown();
    ahead = 2_000;
    expect(await refused).toMatchObject({
      code: 'budget_contended',
      headers: { 'retry-after': '1', 'x-should-retry': 'true' },
    });
  });

  it('lets a thousand requests wait for budget that others hold, and refuses the next at once', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 100n);
    let ms = 0;
    const [one, other] = [bookOf(world, '1'), bookOf(world, '2', { nowMs: () => ms })];
    await one.reserve([policy], 100n, { showsParentFigures: false });
    const refused: unknown[] = [];
    const ask = () =>
      other.reserve([policy], 10n, { showsParentFigures: false }).catch((error) => void refused.push(error));
    const waiting = Array.from({ length: 1_000 }, ask);
    await ask();
    expect(refused).toMatchObject([{ code: 'budget_contended' }]);
    ms = 2_000;
    await Promise.all(waiting);
    expect(refused).toHaveLength(1_001);
  });

  it('spends its leases while the control plane does not answer, and then refuses with 503', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const book = bookOf(world, '1');
    await book.reserve([policy], 10n, { showsParentFigures: false });
    world.isDown = true;
    for (let spent = 10; spent + 10 <= 250; spent += 10) {
      expect(book.tryReserve([policy], 10n)).toBeDefined();
    }
    await expect(book.reserve([policy], 10n, { showsParentFigures: false })).rejects.toMatchObject({
      kind: 'unavailable',
      code: 'budget_unavailable',
    });
  });

  it('refuses no request because a call failed that was sent before it came', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    let fail = (_error: Error) => {};
    const first = new Promise<never>((_resolve, reject) => {
      fail = reject;
    });
    let calls = 0;
    const call: LeaseBookDeps['call'] = (request) => (calls++ === 0 ? first : world.call(request));
    const book = bookOf(world, '1', { call, isLive: () => false });
    const early = book.reserve([policy], 10n, { showsParentFigures: false }).catch((error: unknown) => error);
    await settleDown();
    const late = book.reserve([policy], 10n, { showsParentFigures: false });
    await settleDown();
    fail(new Error('no answer in time'));
    expect(await early).toMatchObject({ code: 'budget_unavailable' });
    expect((await late)?.amountNanoUsd).toBe(10n);
  });

  it('asks again after a call that failed while heartbeats arrive, a few times a second and for seconds', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    vi.useFakeTimers();
    onTestFinished(() => void vi.useRealTimers());
    const askedAtMs: number[] = [];
    let failing = 3;
    const call: LeaseBookDeps['call'] = async (request) => {
      askedAtMs.push(Date.now());
      if (failing-- > 0) throw new Error('the control plane that was asked is stopping');
      return await world.call(request);
    };
    const book = bookOf(world, '1', { call, nowMs: () => Date.now() });
    const served = book.reserve([policy], 10n, { showsParentFigures: false });
    await vi.advanceTimersByTimeAsync(1_000);
    expect((await served)?.amountNanoUsd).toBe(10n);
    expect(askedAtMs).toHaveLength(4);

    failing = Number.POSITIVE_INFINITY;
    askedAtMs.length = 0;
    const refused = book.reserve([policy], 500n, { showsParentFigures: false }).catch((error) => error);
    await vi.advanceTimersByTimeAsync(4_900);
    expect(await Promise.race([refused, 'waits'])).toBe('waits');
    expect(askedAtMs).toHaveLength(50);
    await vi.advanceTimersByTimeAsync(200);
    expect(await refused).toMatchObject({ code: 'budget_unavailable' });
  });

  it('reserves nothing from a lease that is no longer valid', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    let silence = 0;
    const book = bookOf(world, '1', { silenceMs: () => silence });
    await book.reserve([policy], 10n, { showsParentFigures: false });
    expect(book.tryReserve([policy], 10n)).toBeDefined();
    silence = 600_000;
    expect(book.tryReserve([policy], 10n)).toBeUndefined();
  });

  it('continues the leases of an earlier process of the same epoch, and returns them when it closes', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const first = bookOf(world, '1');
    const held = await first.reserve([policy], 10n, { showsParentFigures: false });
    if (!held) throw new Error('the reservation failed');
    first.settle(held, 10n);
    world.isDown = true;
    const second = bookOf(world, '1', { nowMs: () => performance.now() });
    second.restore(JSON.parse(JSON.stringify(first.toPersisted())));
    for (let spent = 10; spent + 10 <= 250; spent += 10) {
      const next = second.tryReserve([policy], 10n);
      if (!next) throw new Error(`the lease is used up at ${spent}`);
      second.settle(next, 10n);
    }
    expect(second.tryReserve([policy], 10n)).toBeUndefined();
    world.isDown = false;
    world.record([policy.bucketKey], '1', 250n);
    await second.reserve([policy], 10n, { showsParentFigures: false });
    await second.close();
    expect(world.hold(policy.bucketKey)).toBe(10n);
  });

  it('resolves with undefined where a counter was replaced, so that the key is looked up again', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    world.over.add(policy.bucketKey);
    expect(await bookOf(world, '1').reserve([policy], 10n, { showsParentFigures: false })).toBeUndefined();
  });

  it('spends nothing twice where a window is reported over and then current again', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p', { windowEndMs: 1_000 });
    world.limits.set(policy.bucketKey, 100n);
    let ahead = 0;
    const nowMs = () => performance.now() + ahead;
    const book = bookOf(world, '1', { nowMs });
    const first = await book.reserve([policy], 100n, { showsParentFigures: false });
    if (!first) throw new Error('the reservation failed');
    book.settle(first, 100n);
    world.over.add(policy.bucketKey);
    book.reclaim([policy.bucket]);
    expect(await book.reserve([policy], 1n, { showsParentFigures: false })).toBeUndefined();
    ahead = 20_000;
    book.everySecond();
    world.over.clear();
    await settleDown();
    const again = await book
      .reserve([policy], 1n, { showsParentFigures: false })
      .catch((error: AppError) => error.code);
    expect(again).toBe('budget_contended');
  });

  it('only counts what a shadow policy would have refused', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p', { enforcement: 'shadow' });
    world.limits.set(policy.bucketKey, 100n);
    world.spent.set(policy.bucketKey, 100n);
    const refusals: string[] = [];
    const book = bookOf(world, '1', { onShadowRefusal: (policyId) => refusals.push(policyId) });
    expect(book.tryReserve([policy], 10n)).toBeDefined();
    await settleDown();
    expect(book.tryReserve([policy], 10n)).toBeDefined();
    expect(refusals).toEqual(['p']);
  });

  it('returns idle leases, and calls seldom while there is much headroom', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 10n ** 12n);
    let ms = 0;
    const book = bookOf(world, '1', { nowMs: () => ms++ });
    for (let request = 0; request < 10_000; request++) {
      const held =
        book.tryReserve([policy], 1_000n) ??
        (await book.reserve([policy], 1_000n, { showsParentFigures: false }));
      if (!held) throw new Error('the reservation failed');
      book.settle(held, 900n);
      world.record([policy.bucketKey], '1', 900n);
    }
    expect(world.calls).toBeLessThanOrEqual(5);
    ms += 60_000;
    book.everySecond();
    await settleDown();
    expect(world.hold(policy.bucketKey)).toBe(0n);
  });

  it('asks no more for an idle lease until half of what it keeps is spent, however much it was granted first', async () => {
    const world = new LeaseWorld();
    world.standing = 1_000n;
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 10n ** 12n);
    let ms = 0;
    const book = bookOf(world, '1', { nowMs: () => ms });
    const spend = async () => {
      const held = await book.reserve([policy], 100n, { showsParentFigures: false });
      if (!held) throw new Error('the reservation failed');
      book.settle(held, 100n);
      world.record([policy.bucketKey], '1', 100n);
      await settleDown();
      ms += 60_000;
      book.everySecond();
      await settleDown();
      return [world.calls, world.hold(policy.bucketKey)];
    };
    expect(await spend()).toEqual([2, 1_000n]);
    for (let left = 900n; left >= 500n; left -= 100n) expect(await spend()).toEqual([2, left]);
    expect(await spend()).toEqual([4, 1_000n]);
  });

  it('returns all but what it spends in two seconds if the control plane reclaims a lease', async () => {
    const world = new LeaseWorld();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 100_000n);
    const book = bookOf(world, '1');
    for (let second = 0; second < 5; second++) {
      const held = await book.reserve([policy], 150n, { showsParentFigures: false });
      if (!held) throw new Error('the reservation failed');
      book.settle(held, 100n);
      world.record([policy.bucketKey], '1', 100n);
      book.everySecond();
    }
    expect(world.hold(policy.bucketKey)).toBeGreaterThan(200n);
    book.reclaim([policy.bucket]);
    await settleDown();
    expect(world.hold(policy.bucketKey)).toBe(200n);
  });
});
