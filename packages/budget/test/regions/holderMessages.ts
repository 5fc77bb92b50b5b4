import type { Counter, Holder, SimulatedAnswer, SimulatedCall } from '../../src/model/leaseLedger.ts';
import type { LeaseAccount, SimulatedProxy } from '../../src/model/simulatedProxy.ts';

/** What a proxy asks of its region, or a region of home. */
export interface HolderCalls {
  readonly holder: Holder;
  readonly calls: readonly SimulatedCall[];
}

export interface HolderGrants {
  readonly holder: Holder;
  readonly grants: readonly { readonly counter: Counter; readonly granted: number }[];
}

/** The next call of a lease. */
export function callOf(account: LeaseAccount, want: number, minimum: number): SimulatedCall {
  account.seq++;
  const { counter, namedBy, seq, returned } = account;
  return { counter, namedBy, seq, returned, want, minimum, standing: 0, release: false };
}

export function grantsOf({ holder, calls }: HolderCalls, answers: readonly SimulatedAnswer[]): HolderGrants {
  const grants = calls.map(({ counter }, i) => ({ counter, granted: answers[i]?.granted ?? 0 }));
  return { holder, grants };
}

/** A holder ignores what an earlier epoch of it was granted. */
export function applyGrants(to: SimulatedProxy | undefined, { holder, grants }: HolderGrants): void {
  if (to?.epoch !== holder.epoch) return;
  for (const { counter, granted } of grants) {
    const account = to.accounts.get(counter.key);
    if (account) account.granted = Math.max(account.granted, granted);
  }
}
