import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  type BucketRef,
  BucketRefSchema,
  BudgetLease_Outcome,
  type LeaseRequestSchema,
  type LeaseResponse,
  LeaseResponseSchema,
} from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import { type BudgetedPolicy, bucketKey } from './budgetedPolicy.ts';
import { LeaseBook, type Reservation } from './leaseBook.ts';

function bucket(policyId: string): BucketRef {
  return create(BucketRefSchema, { policyId, counterVersion: 1, subject: 'policy', windowStartMs: 0n });
}

function budgeted(policyId: string, more: Partial<BudgetedPolicy> = {}): BudgetedPolicy {
  const ref = bucket(policyId);
  return {
    bucket: ref,
    bucketKey: bucketKey(ref),
    enforcement: 'enforce',
    isHard: false,
    isGoverning: true,
    windowEndMs: undefined,
    ...more,
  };
}

interface Row {
  granted: bigint;
  returned: bigint;
  settled: bigint;
  seq: bigint;
}

/** The control plane's side, by the rules of docs/budgets.md, in memory. */
class World {
  readonly limits = new Map<string, bigint>();
  readonly spent = new Map<string, bigint>();
  readonly rows = new Map<string, Map<string, Row>>();
  over = new Set<string>();
  isDown = false;
  calls = 0;
  random: () => number = () => 0.5;

  hold(key: string): bigint {
    let sum = 0n;
    for (const row of this.rows.get(key)?.values() ?? []) {
      const hold = row.granted - row.returned - row.settled;
      if (hold > 0n) sum += hold;
    }
    return sum;
  }

  /** The ledger took in an attempt of this epoch. */
  record(keys: readonly string[], epoch: string, cost: bigint): void {
    for (const key of keys) {
      this.spent.set(key, (this.spent.get(key) ?? 0n) + cost);
      const row = this.rows.get(key)?.get(epoch);
      if (row) row.settled += cost;
    }
  }

  async call(request: MessageInitShape<typeof LeaseRequestSchema>): Promise<LeaseResponse> {
    this.calls++;
    await Promise.resolve();
    if (this.isDown) throw new Error('nobody answers');
    const budgets = (request.budgets ?? []).map((call) => {
      const key = bucketKey(call.bucket as BucketRef);
      const rows = this.rows.get(key) ?? new Map<string, Row>();
      this.rows.set(key, rows);
      const epoch = request.epoch ?? '';
      const row = rows.get(epoch) ?? { granted: 0n, returned: 0n, settled: 0n, seq: 0n };
      rows.set(epoch, row);
      const [returned, minimum, seq] = [
        call.returnedNanoUsd ?? 0n,
        call.minimumNanoUsd ?? 0n,
        call.seq ?? 0n,
      ];
      if (returned > row.returned) row.returned = returned;
      const limit = this.limits.get(key) ?? 0n;
      const spent = this.spent.get(key) ?? 0n;
      let outcome: BudgetLease_Outcome = BudgetLease_Outcome.GRANTED;
      if (this.over.has(key)) outcome = BudgetLease_Outcome.OVER;
      else if (seq > row.seq && minimum > 0n) {
        const room = limit - spent - this.hold(key);
        const share = room / 4n > minimum ? room / 4n : minimum;
        if (spent + minimum > limit) outcome = BudgetLease_Outcome.EXHAUSTED;
        else if (room < minimum) outcome = BudgetLease_Outcome.CONTENDED;
        else row.granted += share;
      }
      if (seq > row.seq) row.seq = seq;
      return {
        seq,
        grantedNanoUsd: row.granted,
        limitNanoUsd: limit,
        spentNanoUsd: spent,
        leasedNanoUsd: this.hold(key),
        outcome,
      };
    });
    // Now and then the answer is lost on the way.
    if (this.random() < 0.1) throw new Error('the answer was lost');
    return create(LeaseResponseSchema, { budgets });
  }
}

function bookOf(world: World, epoch: string, clock = { ms: 0 }): LeaseBook {
  return new LeaseBook({
    call: (request) => world.call(request),
    producerId: 'p',
    epoch,
    nowMs: () => clock.ms++,
    wallMs: () => 0,
    silenceMs: () => 0,
    onShadowRefusal: () => {},
  });
}

/** https://en.wikipedia.org/wiki/Xorshift */
function randomFrom(seed: number): () => number {
  let state = seed * 2_654_435_761 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

const settleDown = () => new Promise<void>((resolve) => setImmediate(resolve));

describe('the book of leases', () => {
  it.each([
    ['hard', true],
    ['balanced', false],
  ])(
    'never lets proxies together spend more than the limits and what attempts cost above their reserve, in %s mode',
    async (_mode, isHard) => {
      for (let seed = 1; seed <= 60; seed++) {
        const random = randomFrom(seed);
        const int = (from: number, to: number) => BigInt(from + Math.floor(random() * (to - from + 1)));
        const world = new World();
        world.random = random;
        const parent = budgeted('parent', { isGoverning: false });
        const leaves = [budgeted('a'), budgeted('b')];
        for (const policy of [parent, ...leaves]) world.limits.set(policy.bucketKey, int(200, 2_000));
        const books = ['1', '2', '3'].map((epoch) => bookOf(world, epoch));
        const underWay: {
          at: number;
          chain: BudgetedPolicy[];
          held: Reservation;
          cost: bigint;
          reserve: bigint;
        }[] = [];
        const bill = new Map<string, bigint>();
        const overage = new Map<string, bigint>();
        for (let step = 0; step < 300; step++) {
          const at = Math.floor(random() * books.length);
          const book = books[at] as LeaseBook;
          const dice = random();
          if (dice < 0.5) {
            const chain = [leaves[Math.floor(random() * 2)] as BudgetedPolicy, parent];
            const reserve = int(5, 40);
            let isLate = false;
            const waited = async () => {
              const late = await book.reserve(chain, reserve, true).catch(() => undefined);
              if (isLate && late) book.settle(late, 0n);
              return late;
            };
            const held =
              book.tryReserve(chain, reserve) ??
              (await Promise.race([waited(), settleDown().then(settleDown)]));
            isLate = true;
            if (held)
              underWay.push({ at, chain, held, reserve, cost: int(0, Number(reserve) * (isHard ? 1 : 2)) });
          } else if (dice < 0.9) {
            const [one] = underWay.splice(Math.floor(random() * underWay.length), 1);
            if (!one) continue;
            const keys = one.chain.map((policy) => policy.bucketKey);
            (books[one.at] as LeaseBook).settle(one.held, one.cost);
            for (const key of keys) {
              bill.set(key, (bill.get(key) ?? 0n) + one.cost);
              if (one.cost > one.reserve) overage.set(key, (overage.get(key) ?? 0n) + one.cost - one.reserve);
            }
            world.record(keys, String(one.at + 1), one.cost);
          } else if (dice < 0.95) book.recall([parent.bucket]);
          else await settleDown();
          for (const [key, limit] of world.limits) {
            const most = limit + (isHard ? 0n : (overage.get(key) ?? 0n));
            expect(bill.get(key) ?? 0n, `seed ${seed}, step ${step}`).toBeLessThanOrEqual(most);
          }
        }
        // At rest everything is given back.
        world.random = () => 0.5;
        await new Promise((resolve) => setTimeout(resolve, 0));
        for (const one of underWay) {
          (books[one.at] as LeaseBook).settle(one.held, one.reserve);
          world.record(
            one.chain.map((policy) => policy.bucketKey),
            String(one.at + 1),
            one.reserve,
          );
        }
        await settleDown();
        for (const book of books) await book.close();
        for (const key of world.limits.keys()) expect(world.hold(key), `seed ${seed}, ${key}`).toBe(0n);
      }
    },
  );

  it('reserves from all buckets or from none', async () => {
    const world = new World();
    const [leaf, parent] = [budgeted('leaf'), budgeted('parent', { isGoverning: false })];
    world.limits.set(leaf.bucketKey, 1_000n).set(parent.bucketKey, 5n);
    const book = bookOf(world, '1');
    await expect(book.reserve([leaf, parent], 10n, false)).rejects.toMatchObject({
      code: 'budget_exhausted',
      // Of a parent's figures only an operator hears.
      details: { reset: null },
    });
    const all = await book.reserve([leaf], 250n, false);
    expect(all?.amountNanoUsd).toBe(250n);
  });

  it('refuses with the figures that the control plane gave, and says that to try again does not help', async () => {
    const world = new World();
    const policy = budgeted('p', { windowEndMs: 86_400_000 });
    world.limits.set(policy.bucketKey, 10_000n);
    world.spent.set(policy.bucketKey, 9_000n);
    const refusal = await bookOf(world, '1')
      .reserve([policy], 1_001n, false)
      .catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(AppError);
    expect(refusal).toMatchObject({
      code: 'budget_exhausted',
      details: { policy_id: 'p', limit_micro_usd: 10, spent_micro_usd: 9, reset: '1970-01-02T00:00:00.000Z' },
      headers: { 'x-should-retry': 'false' },
    });
  });

  it('limits an answer by what comes back of what others hold, not by the little that they left', async () => {
    const world = new World();
    const policy = budgeted('p', { isHard: true });
    world.limits.set(policy.bucketKey, 100n);
    let ahead = 0;
    const clock = {
      get ms() {
        return performance.now() + ahead;
      },
      set ms(_ms) {},
    };
    const [one, other] = [bookOf(world, '1', clock), bookOf(world, '2', clock)];
    const held = await one.reserve([policy], 99n, true);
    if (!held) throw new Error('there was room');
    const waiting = other.room([policy], { useful: 50n, least: 10n });
    await settleDown();
    one.settle(held, 3n);
    world.record([policy.bucketKey], '1', 3n);
    one.recall([policy.bucket]);
    expect(await waiting).toBe(97n);

    ahead = 1_001;
    const again = await one.reserve([policy], 40n, true);
    expect(again).toBeDefined();
    const rest = other.room([policy], { useful: 95n, least: 10n });
    const refused = other.room([policy], { useful: 95n, least: 90n }).catch((error: unknown) => error);
    await settleDown();
    ahead = 2_002;
    expect(await rest).toBe(57n);
    expect(await refused).toMatchObject({ code: 'budget_contended' });
    // What is spent does not come back: nobody waits for it.
    expect(await other.room([policy], { useful: 200n, least: 150n })).toBe(57n);
  });

  it('waits for what others hold, takes it when it comes back, and else says that it is only held', async () => {
    const world = new World();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 100n);
    let ahead = 0;
    const clock = {
      get ms() {
        return performance.now() + ahead;
      },
      set ms(_ms) {},
    };
    const [one, other] = [bookOf(world, '1', clock), bookOf(world, '2', clock)];
    const held = await one.reserve([policy], 100n, false);
    if (!held) throw new Error('there was room');
    const waiting = other.reserve([policy], 10n, false);
    await settleDown();
    one.settle(held, 0n);
    one.recall([policy.bucket]);
    expect((await waiting)?.amountNanoUsd).toBe(10n);

    const rest = await one.reserve([policy], 60n, false);
    expect(rest).toBeDefined();
    const refused = other.reserve([policy], 90n, false).catch((error: unknown) => error);
    await settleDown();
    ahead = 2_000;
    expect(await refused).toMatchObject({
      code: 'budget_contended',
      headers: { 'retry-after': '1', 'x-should-retry': 'true' },
    });
  });

  it('spends what it holds while nobody answers, and then refuses by 503', async () => {
    const world = new World();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const book = bookOf(world, '1');
    await book.reserve([policy], 10n, false);
    world.isDown = true;
    for (let spent = 10; spent + 10 <= 250; spent += 10) {
      expect(book.tryReserve([policy], 10n)).toBeDefined();
    }
    await expect(book.reserve([policy], 10n, false)).rejects.toMatchObject({
      kind: 'unavailable',
      code: 'budget_unavailable',
    });
  });

  it('admits nothing on a lease whose validity is over', async () => {
    const world = new World();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    let silence = 0;
    const book = new LeaseBook({
      call: (request) => world.call(request),
      producerId: 'p',
      epoch: '1',
      nowMs: () => performance.now(),
      wallMs: () => 0,
      silenceMs: () => silence,
      onShadowRefusal: () => {},
    });
    await book.reserve([policy], 10n, false);
    expect(book.tryReserve([policy], 10n)).toBeDefined();
    silence = 600_000;
    expect(book.tryReserve([policy], 10n)).toBeUndefined();
  });

  it('goes on with what an earlier process of the same epoch held, and gives it back when it is told to', async () => {
    const world = new World();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    const first = bookOf(world, '1');
    const held = await first.reserve([policy], 10n, false);
    if (!held) throw new Error('there was room');
    first.settle(held, 10n);
    world.isDown = true;
    const second = bookOf(world, '1');
    second.restore(JSON.parse(JSON.stringify(first.kept())));
    for (let spent = 10; spent + 10 <= 250; spent += 10) {
      const next = second.tryReserve([policy], 10n);
      if (!next) throw new Error(`nothing is left of what was held, at ${spent}`);
      second.settle(next, 10n);
    }
    expect(second.tryReserve([policy], 10n)).toBeUndefined();
    world.isDown = false;
    world.record([policy.bucketKey], '1', 250n);
    await second.reserve([policy], 10n, false);
    await second.close();
    expect(world.hold(policy.bucketKey)).toBe(10n);
  });

  it('asks for the key anew where a counter was replaced', async () => {
    const world = new World();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 1_000n);
    world.over.add(policy.bucketKey);
    expect(await bookOf(world, '1').reserve([policy], 10n, false)).toBeUndefined();
  });

  it('spends nothing twice where a window is called over and then current again', async () => {
    const world = new World();
    const policy = budgeted('p', { windowEndMs: 1_000 });
    world.limits.set(policy.bucketKey, 100n);
    let ahead = 0;
    const clock = {
      get ms() {
        return performance.now() + ahead;
      },
      set ms(_ms) {},
    };
    const book = bookOf(world, '1', clock);
    const first = await book.reserve([policy], 100n, false);
    if (!first) throw new Error('there was room');
    book.settle(first, 100n);
    world.over.add(policy.bucketKey);
    book.recall([policy.bucket]);
    expect(await book.reserve([policy], 1n, false)).toBeUndefined();
    ahead = 20_000;
    book.everySecond();
    world.over.clear();
    await settleDown();
    const again = await book.reserve([policy], 1n, false).catch((error: AppError) => error.code);
    expect(again).toBe('budget_contended');
  });

  it('only counts what a policy in shadow would have refused', async () => {
    const world = new World();
    const policy = budgeted('p', { enforcement: 'shadow' });
    world.limits.set(policy.bucketKey, 100n);
    world.spent.set(policy.bucketKey, 100n);
    const refusals: string[] = [];
    const clock = { ms: 0 };
    const book = new LeaseBook({
      call: (request) => world.call(request),
      producerId: 'p',
      epoch: '1',
      nowMs: () => clock.ms++,
      wallMs: () => 0,
      silenceMs: () => 0,
      onShadowRefusal: (policyId) => refusals.push(policyId),
    });
    expect(book.tryReserve([policy], 10n)).toBeDefined();
    await settleDown();
    expect(book.tryReserve([policy], 10n)).toBeDefined();
    expect(refusals).toEqual(['p']);
  });

  it('gives back what lies idle, and asks seldom while there is much room', async () => {
    const world = new World();
    const policy = budgeted('p');
    world.limits.set(policy.bucketKey, 10n ** 12n);
    const clock = { ms: 0 };
    const book = bookOf(world, '1', clock);
    for (let request = 0; request < 10_000; request++) {
      const held = book.tryReserve([policy], 1_000n) ?? (await book.reserve([policy], 1_000n, false));
      if (!held) throw new Error('there was room');
      book.settle(held, 900n);
      world.record([policy.bucketKey], '1', 900n);
    }
    expect(world.calls).toBeLessThanOrEqual(5);
    clock.ms += 60_000;
    book.everySecond();
    await settleDown();
    expect(world.hold(policy.bucketKey)).toBe(0n);
  });
});
