import { create } from '@bufbuild/protobuf';
import { LeaseResponseSchema, FirstUseWindow_Outcome as Outcome } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { bookOf, budgeted, LeaseWorld } from '../../test/leaseWorld.ts';
import { bucketKey, OTHERS_SUBJECT, UNOPENED_MS } from '../bucketRef.ts';
import type { BudgetedPolicy } from '../policies.ts';
import type { LeaseBookDeps } from './leaseBook.ts';
import { bucketsOf, type LeaseBook } from './leaseBook.ts';

const NO_FIGURES = { showsParentFigures: false };
const HOUR_MS = 3_600_000;
const LENGTH_MS = 5 * HOUR_MS;

function counterOf(
  subject: string,
  limit: Partial<NonNullable<BudgetedPolicy['limit']>> = {},
): BudgetedPolicy {
  const made = budgeted('pol_1.lim_1');
  const bucket = { ...made.bucket, subject, windowStartMs: UNOPENED_MS };
  return {
    ...made,
    bucket,
    bucketKey: bucketKey(bucket),
    firstUseMs: LENGTH_MS,
    limit: {
      id: 'lim_1',
      name: 'session',
      scope: 'policy',
      models: [],
      value: undefined,
      unit: undefined,
      ...limit,
    },
  };
}

/** A control plane that opens windows, and leases in those that are open. */
class FirstUseWorld extends LeaseWorld {
  clockMs = 1_000_000;
  limit = 100n;
  readonly opened = new Map<string, number[]>();
  readonly withoutRoom = new Set<string>();

  override async call(request: Parameters<LeaseWorld['call']>[0]) {
    const windows = (request.windows ?? []).map(({ subject = '', opens }) => {
      const starts = this.opened.get(subject) ?? [];
      const last = starts.at(-1);
      const isOpen = last !== undefined && last + LENGTH_MS > this.clockMs;
      if (!isOpen && opens && this.withoutRoom.has(subject))
        return { outcome: Outcome.OTHERS, limit: this.limit };
      if (!isOpen && !opens) return { outcome: Outcome.UNOPENED, limit: this.limit };
      if (!isOpen) this.opened.set(subject, [...starts, this.clockMs]);
      const startMs = BigInt(isOpen ? last : this.clockMs);
      this.limits.set(this.keyAt(subject, startMs), this.limit);
      return { outcome: Outcome.OPEN, startMs, limit: this.limit };
    });
    if (windows.length === 0) return await super.call(request);
    this.calls++;
    if (this.isDown) throw new Error('the control plane is down');
    return create(LeaseResponseSchema, { windows });
  }

  keyAt(subject: string, windowStartMs: bigint): string {
    return bucketKey({ policyId: 'pol_1.lim_1', counterVersion: 1, subject, windowStartMs });
  }

  book(epoch: string, deps: Partial<LeaseBookDeps> = {}): LeaseBook {
    return bookOf(this, epoch, { clockMs: () => this.clockMs, ...deps });
  }
}

function scene() {
  const world = new FirstUseWorld();
  const main = budgeted('pol_1');
  world.limits.set(main.bucketKey, 1_000n);
  return { world, main, session: counterOf('policy') };
}

describe('a window that opens on first use', () => {
  it('opens with the first attempt, and holds for all proxies until it is over', async () => {
    const { world, main, session } = scene();
    const [one, other] = [world.book('1'), world.book('2')];
    const first = await one.reserve([main, session], 10n, NO_FIGURES);
    expect(first && bucketsOf(first).map(({ windowStartMs }) => windowStartMs)).toEqual([0n, 1_000_000n]);
    world.clockMs += HOUR_MS;
    const second = await other.reserve([main, session], 10n, NO_FIGURES);
    expect(second && bucketsOf(second)[1]?.windowStartMs).toBe(1_000_000n);
    // From now on without a call.
    const calls = world.calls;
    expect(one.tryReserve([main, session], 1n)).toBeDefined();
    expect(world.calls).toBe(calls);
    world.clockMs += LENGTH_MS - HOUR_MS;
    expect(one.tryReserve([main, session], 1n)).toBeUndefined();
    const later = await one.reserve([main, session], 10n, NO_FIGURES);
    expect(later && bucketsOf(later)[1]?.windowStartMs).toBe(BigInt(world.clockMs));
    expect(world.opened.get('policy')).toEqual([1_000_000, world.clockMs]);
  });

  it('is not opened by an attempt that is refused, by it or by another budget', async () => {
    const { world, main, session } = scene();
    const book = world.book('1');
    await expect(book.reserve([main, session], 101n, NO_FIGURES)).rejects.toMatchObject({
      code: 'budget_exhausted',
      details: { limit_id: 'lim_1', spent_micro_usd: 0, reset: null },
    });
    world.spent.set(main.bucketKey, 995n);
    await expect(book.reserve([main, session], 10n, NO_FIGURES)).rejects.toMatchObject({
      code: 'budget_exhausted',
    });
    expect(world.opened.size).toBe(0);
  });

  it('opens once for many first attempts at once, over three proxies, which pass no more than its limit', async () => {
    const { world, main, session } = scene();
    const books = ['1', '2', '3'].map((epoch) => world.book(epoch, { nowMs: () => performance.now() }));
    const ends = Array.from({ length: 64 }, async (_, at) => {
      return await (books[at % 3] as LeaseBook).reserve([main, session], 10n, NO_FIGURES);
    });
    const passed = (await Promise.allSettled(ends)).filter(({ status }) => status === 'fulfilled');
    expect(passed.length).toBeGreaterThan(0);
    expect(passed.length).toBeLessThanOrEqual(10);
    expect(world.opened.get('policy')).toHaveLength(1);
  });

  it('leaves nothing reserved if the control plane is away, and refuses', async () => {
    const { world, main, session } = scene();
    const book = world.book('1');
    const held = await book.reserve([main], 10n, NO_FIGURES);
    world.isDown = true;
    await expect(book.reserve([main, session], 10n, NO_FIGURES)).rejects.toMatchObject({
      code: 'budget_unavailable',
    });
    expect(held?.entries[0]?.lease.reserved).toBe(10n);
  });

  it('is that of `others` for a value that its key may not open', async () => {
    const { world, main } = scene();
    const others = counterOf(OTHERS_SUBJECT);
    const ann = counterOf('user:ann', { scope: 'user', value: 'ann', opening: { keyId: 'key_1', others } });
    world.withoutRoom.add('user:ann');
    const held = await world.book('1').reserve([main, ann], 10n, NO_FIGURES);
    expect(held && bucketsOf(held).map(({ subject }) => subject)).toEqual(['policy', OTHERS_SUBJECT]);
    expect(world.opened.has('user:ann')).toBe(false);
  });

  it('is forgotten while no request asks for it, and found again', async () => {
    const { world, main, session } = scene();
    const book = world.book('1');
    await book.reserve([main, session], 10n, NO_FIGURES);
    world.clockMs += 299_000;
    book.everySecond();
    expect(book.tryReserve([main, session], 1n)).toBeDefined();
    world.clockMs += 300_000;
    book.everySecond();
    expect(book.tryReserve([main, session], 1n)).toBeUndefined();
    const again = await book.reserve([main, session], 1n, NO_FIGURES);
    expect(again && bucketsOf(again)[1]?.windowStartMs).toBe(1_000_000n);
    expect(world.opened.get('policy')).toHaveLength(1);
  });

  it('leaves its limit as headroom before it opens', async () => {
    const { world, main, session } = scene();
    const everything = { useful: 10_000n, least: 1n };
    const room = { nanoUsd: everything, tokens: everything };
    expect(await world.book('1').headroom([main, session], room)).toEqual({
      nanoUsd: 100n,
      tokens: undefined,
    });
    expect(world.opened.size).toBe(0);
  });
});
