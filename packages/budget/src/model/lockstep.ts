import { isDeepStrictEqual } from 'node:util';
import type { AtRest, LeaseLedger } from './leaseLedger.ts';

/** A ledger that is compared with the reference after each operation. Rejects at the first difference. */
export function lockstep(reference: LeaseLedger, ledger: LeaseLedger): LeaseLedger {
  const same = <T>(what: string, expected: T, actual: T): T => {
    if (isDeepStrictEqual(expected, actual)) return actual;
    throw new Error(`${what}: by the rules ${JSON.stringify(expected)}, not ${JSON.stringify(actual)}`);
  };
  const held = ({ held: leases }: AtRest) => leases.map((lease) => JSON.stringify(lease)).sort();
  return {
    async start(limits) {
      await reference.start(limits);
      await ledger.start(limits);
    },
    async register(holder, before) {
      await reference.register(holder, before);
      await ledger.register(holder, before);
    },
    async call(holder, calls, step) {
      const expected = await reference.call(holder, calls, step);
      return same(
        `granted to ${JSON.stringify({ holder, calls })}`,
        expected,
        await ledger.call(holder, calls, step),
      );
    },
    async windowOf(opens, step) {
      const expected = await reference.windowOf(opens, step);
      return same('the window that is open', expected, await ledger.windowOf(opens, step));
    },
    async record(event) {
      await reference.record(event);
      await ledger.record(event);
    },
    async decide(event, decision, step) {
      await reference.decide(event, decision, step);
      await ledger.decide(event, decision, step);
    },
    async declareLast(holder, lastN, step) {
      await reference.declareLast(holder, lastN, step);
      await ledger.declareLast(holder, lastN, step);
    },
    async closeLeases(most) {
      const closed = await ledger.closeLeases(most);
      await reference.closeLeases(most, closed);
      return closed;
    },
    async mergeSpend(policy, most) {
      await reference.mergeSpend(policy, most);
      await ledger.mergeSpend(policy, most);
    },
    async crashMerging(policy, most) {
      await reference.crashMerging(policy, most);
      await ledger.crashMerging(policy, most);
    },
    async setLimit(policy, limit, step) {
      await reference.setLimit(policy, limit, step);
      await ledger.setLimit(policy, limit, step);
    },
    async startOverride(of, override, step) {
      await reference.startOverride(of, override, step);
      await ledger.startOverride(of, override, step);
    },
    async endOverride(of, step) {
      await reference.endOverride(of, step);
      await ledger.endOverride(of, step);
    },
    async endDueOverrides(step) {
      await reference.endDueOverrides(step);
      await ledger.endDueOverrides(step);
    },
    async startCounter(next, step) {
      await reference.startCounter(next, step);
      await ledger.startCounter(next, step);
    },
    async expire(which) {
      await reference.expire(which);
      await ledger.expire(which);
    },
    async exposure(of) {
      return same(`exposure of ${of.key}`, await reference.exposure(of), await ledger.exposure(of));
    },
    async atRest() {
      const actual = await ledger.atRest();
      same('held at rest', held(await reference.atRest()), held(actual));
      return actual;
    },
  };
}
