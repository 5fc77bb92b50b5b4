import { seededRandom } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { bookOf, budgeted, LeaseWorld, settleDown } from '../../test/leaseWorld.ts';
import type { BudgetedPolicy } from '../policies.ts';
import type { LeaseBook, Reservation } from './leaseBook.ts';

describe('the lease book', () => {
  it.each([
    ['hard', true],
    ['balanced', false],
  ])(
    'never lets proxies together spend more than the limits plus what attempts cost above their reservations, in %s mode',
    async (_mode, isHard) => {
      let forgotten = 0;
      for (let seed = 1; seed <= 60; seed++) {
        const random = seededRandom(seed);
        const int = (from: number, to: number) => BigInt(from + Math.floor(random() * (to - from + 1)));
        const world = new LeaseWorld();
        world.random = random;
        const parent = budgeted('parent', { isGoverning: false });
        const leaves = [budgeted('a'), budgeted('b')];
        for (const policy of [parent, ...leaves]) world.limits.set(policy.bucketKey, int(200, 2_000));
        const clock = { ms: 0 };
        const books = ['1', '2', '3'].map((epoch) =>
          bookOf(world, epoch, { nowMs: () => clock.ms++, isLive: () => false }),
        );
        const running: {
          at: number;
          chain: BudgetedPolicy[];
          held: Reservation;
          cost: bigint;
          reserve: bigint;
        }[] = [];
        const waiting = new Set<Promise<unknown>>();
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
              const late = await book
                .reserve(chain, reserve, { showsParentFigures: true })
                .catch(() => undefined);
              if (isLate && late) book.settle(late, 0n);
              return late;
            };
            const wait = () => {
              const ended = waited().finally(() => waiting.delete(ended));
              waiting.add(ended);
              return Promise.race([ended, settleDown().then(settleDown)]);
            };
            const held = book.tryReserve(chain, reserve) ?? (await wait());
            isLate = true;
            if (held)
              running.push({ at, chain, held, reserve, cost: int(0, Number(reserve) * (isHard ? 1 : 2)) });
          } else if (dice < 0.9) {
            const [one] = running.splice(Math.floor(random() * running.length), 1);
            if (!one) continue;
            const keys = one.chain.map((policy) => policy.bucketKey);
            (books[one.at] as LeaseBook).settle(one.held, one.cost);
            for (const key of keys) {
              bill.set(key, (bill.get(key) ?? 0n) + one.cost);
              if (one.cost > one.reserve) overage.set(key, (overage.get(key) ?? 0n) + one.cost - one.reserve);
            }
            world.record(keys, String(one.at + 1), one.cost);
          } else if (dice < 0.95) book.reclaim([parent.bucket]);
          else if (dice < 0.98) await settleDown();
          else {
            // A pause, in which leases are returned, and those that no attempt runs on are forgotten.
            await settleDown();
            for (const second of [1, 2, 3]) {
              clock.ms += second === 2 ? 300_000 : 40_000;
              for (const each of books) each.everySecond();
              await settleDown();
            }
            for (const each of books) forgotten += each.forgotten;
          }
          for (const [key, limit] of world.limits) {
            const most = limit + (isHard ? 0n : (overage.get(key) ?? 0n));
            expect(bill.get(key) ?? 0n, `seed ${seed}, step ${step}`).toBeLessThanOrEqual(most);
          }
        }
        // At the end everything is returned, once those that wait have given up: their timers are real.
        world.random = () => 0.5;
        clock.ms += 10_000;
        await Promise.all(waiting);
        for (const one of running) {
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
      expect(forgotten).toBeGreaterThan(100);
    },
  );
});
