import { create } from '@bufbuild/protobuf';
import { LeaseResponseSchema } from '@weighbridge/contracts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { AccountBook, type AccountPermit } from './accountBook.ts';
import type { AccountBookDeps, LimitedAccount } from './accountQueue.ts';
import { type AccountWindow, decideAccount, NEW_WINDOW } from './accountWindow.ts';

const START_MS = 1_790_000_000_000;
beforeEach(() => vi.useFakeTimers({ now: START_MS }));
afterEach(() => vi.useRealTimers());

const ANSWER_MS = 5;

/** A control plane, and proxies whose calls reach it. */
function useAccounts(proxies: number) {
  const windows = new Map<string, AccountWindow>();
  const control = { calls: 0, isDown: false };
  const limitsOf = new Map<string, LimitedAccount>();
  const call: AccountBookDeps['call'] = async ({ producerId = '', accounts = [] }) => {
    await new Promise((resolve) => setTimeout(resolve, ANSWER_MS));
    control.calls++;
    if (control.isDown) throw new Error('down');
    return create(LeaseResponseSchema, {
      accounts: accounts.map(
        ({ connectorId = '', waiting = [], corrections = [], vendorLeft, refusedMs = 0 }) => {
          const account = limitsOf.get(connectorId);
          const tokens = account?.tokensPerMinute;
          const { window, grant } = decideAccount(
            windows.get(connectorId) ?? NEW_WINDOW,
            {
              requests: account?.requestsPerMinute,
              tokens: tokens === undefined ? undefined : Number(tokens),
            },
            {
              producerId,
              waiting: waiting.map((one) => ({
                priority: one.priority ?? 0,
                tokens: Number(one.tokens ?? 0n),
                stays: one.stays ?? false,
              })),
              corrections: corrections.map((one) => ({
                slot: Number(one.slot),
                requests: Number(one.requests),
                tokens: Number(one.tokens),
              })),
              vendorLeft: vendorLeft?.requests && {
                requests: {
                  left: Number(vendorLeft.requests.left),
                  resetMs: vendorLeft.requests.resetMs ?? 0,
                },
              },
              refusedMs,
            },
            Date.now(),
          );
          windows.set(connectorId, window);
          return {
            slot: BigInt(grant.slot),
            granted: grant.granted,
            retryMs: grant.retryMs,
            ...(grant.left.requests !== undefined && { requestsLeft: BigInt(grant.left.requests) }),
            ...(grant.left.tokens !== undefined && { tokensLeft: BigInt(grant.left.tokens) }),
          };
        },
      ),
    });
  };
  const state = { isLive: true };
  const books = Array.from(
    { length: proxies },
    (_, at) =>
      new AccountBook({
        call,
        producerId: `p${at}`,
        epoch: 'e',
        nowMs: () => Date.now(),
        liveProxies: () => proxies,
        isLive: () => state.isLive,
      }),
  );
  const account = (id: string, requestsPerMinute?: number, tokensPerMinute?: bigint): LimitedAccount => {
    const made = { id, provider: 'openai', requestsPerMinute, tokensPerMinute };
    limitsOf.set(id, made);
    return made;
  };
  return { control, state, books, book: books[0] as AccountBook, account };
}

interface Asked {
  readonly name: string;
  readonly atMs: number;
  readonly result: AccountPermit | { readonly code: string; readonly headers: Record<string, string> };
}

function asks() {
  const ended: Asked[] = [];
  const ask = (
    book: AccountBook,
    name: string,
    accounts: LimitedAccount | readonly LimitedAccount[],
    { priority = 0, mayWait = false, tokens = 0, principalId = 'ada' } = {},
  ) => {
    const list = 'id' in accounts ? [accounts] : accounts;
    const asked = book.request({
      accounts: list.map((account) => ({ account, tokens })),
      priority,
      principalId,
      mayWait,
    });
    void asked.permit.then(
      (result) => ended.push({ name, atMs: Date.now() - START_MS, result }),
      (result) => ended.push({ name, atMs: Date.now() - START_MS, result }),
    );
    return asked;
  };
  const granted = () => ended.filter(({ result }) => 'account' in result);
  const refused = () => ended.filter(({ result }) => 'code' in result);
  return { ask, ended, granted, refused };
}

describe('requests to an account with limits', () => {
  it('go as long as it has any left, over all proxies, and are refused after that, in few calls', async () => {
    const { books, control, account } = useAccounts(3);
    const { ask, granted, refused } = asks();
    const sixty = account('con', 60);
    for (let at = 0; at < 90; at++) ask(books[at % 3] as AccountBook, 'x', sixty);
    await vi.advanceTimersByTimeAsync(1_000);
    expect([granted().length, refused().length]).toEqual([60, 30]);
    expect(refused()[0]?.result).toMatchObject({
      code: 'account_limit_exceeded',
      headers: { 'retry-after': '60' },
    });
    expect(control.calls).toBe(3);
    const before = control.calls;
    for (let at = 0; at < 1_000; at++) ask(books[at % 3] as AccountBook, 'x', sixty);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(granted().length).toBe(60);
    // Who was granted its last request with it does not know yet that nothing is left.
    expect(control.calls).toBeLessThanOrEqual(before + 3);
  });

  it('wait for it in order of their priorities, at whichever proxy, and of their arrival', async () => {
    const { books, account } = useAccounts(3);
    const { ask, granted } = asks();
    const four = account('con', 4);
    const [one, two, three] = books as [AccountBook, AccountBook, AccountBook];
    for (let at = 0; at < 4; at++) ask(one, 'first', four);
    await vi.advanceTimersByTimeAsync(100);
    for (let at = 0; at < 3; at++) ask(two, 'low', four, { mayWait: true });
    await vi.advanceTimersByTimeAsync(100);
    for (let at = 0; at < 3; at++) ask(three, 'high', four, { mayWait: true, priority: 7 });
    await vi.advanceTimersByTimeAsync(59_000);
    expect(granted().length).toBe(4);
    await vi.advanceTimersByTimeAsync(10_000);
    expect(
      granted()
        .slice(4)
        .map(({ name }) => name)
        .sort(),
    ).toEqual(['high', 'high', 'high', 'low']);
    await vi.advanceTimersByTimeAsync(66_000);
    expect(
      granted()
        .slice(8)
        .map(({ name }) => name),
    ).toEqual(['low', 'low']);
  });

  it('wait for any of several accounts, and take one only', async () => {
    const { book, books, account } = useAccounts(2);
    const { ask, granted } = asks();
    const accounts = [account('one', 1), account('two', 1)] as const;
    ask(book, 'x', accounts[0]);
    await vi.advanceTimersByTimeAsync(30_000);
    ask(book, 'x', accounts[1]);
    await vi.advanceTimersByTimeAsync(100);
    ask(book, 'waits', accounts, { mayWait: true });
    await vi.advanceTimersByTimeAsync(38_000);
    expect(granted().at(-1)).toMatchObject({ name: 'waits', result: { account: { id: 'one' } } });
    // Nothing of the other account is used.
    await vi.advanceTimersByTimeAsync(30_000);
    ask(books[1] as AccountBook, 'next', accounts[1]);
    await vi.advanceTimersByTimeAsync(100);
    expect(granted().at(-1)).toMatchObject({ name: 'next' });
    expect(book.waiting).toBe(0);
  });

  it('leave the queue when they give up, and hold up no others', async () => {
    const { books, account } = useAccounts(2);
    const { ask, granted, refused } = asks();
    const one = account('con', 1);
    const [here, there] = books as [AccountBook, AccountBook];
    ask(here, 'x', one);
    await vi.advanceTimersByTimeAsync(100);
    const waits = ask(here, 'waits', one, { mayWait: true, priority: 9 });
    await vi.advanceTimersByTimeAsync(1_000);
    waits.giveUp();
    await vi.advanceTimersByTimeAsync(1_000);
    expect([refused().length, here.waiting]).toEqual([1, 0]);
    ask(there, 'low', one, { mayWait: true });
    await vi.advanceTimersByTimeAsync(64_000);
    expect(granted().at(-1)).toMatchObject({ name: 'low' });
  });

  it('wait in no greater number than a thousand of one principal', async () => {
    const { book, account } = useAccounts(1);
    const { ask, granted, refused } = asks();
    const one = account('con', 1);
    ask(book, 'x', one);
    await vi.advanceTimersByTimeAsync(100);
    const waiting = Array.from({ length: 1_005 }, () => ask(book, 'many', one, { mayWait: true }));
    ask(book, 'other', one, { mayWait: true, principalId: 'bob' });
    await vi.advanceTimersByTimeAsync(100);
    expect([refused().length, book.waiting]).toEqual([5, 1_001]);
    for (const { giveUp } of waiting) giveUp();
    await vi.advanceTimersByTimeAsync(100);
    ask(book, 'again', one, { mayWait: true });
    expect(book.waiting).toBe(2);
    expect(granted().length).toBe(1);
  });

  it('give back what they did not use, in tokens and if they were not sent', async () => {
    const { book, account } = useAccounts(1);
    const { ask, granted, refused } = asks();
    const limited = account('con', 2, 1_000n);
    ask(book, 'x', limited, { tokens: 900 });
    await vi.advanceTimersByTimeAsync(100);
    ask(book, 'too much', limited, { tokens: 200 });
    await vi.advanceTimersByTimeAsync(100);
    expect([granted().length, refused().length]).toEqual([1, 1]);
    book.settle(granted()[0]?.result as AccountPermit, 300);
    ask(book, 'y', limited, { tokens: 200 });
    await vi.advanceTimersByTimeAsync(100);
    book.settle(granted()[1]?.result as AccountPermit, undefined);
    ask(book, 'z', limited, { tokens: 200 });
    // More than the whole limit: it goes once nothing else is counted.
    ask(book, 'large', limited, { tokens: 5_000, mayWait: true });
    await vi.advanceTimersByTimeAsync(100);
    expect(granted().map(({ name }) => name)).toEqual(['x', 'y', 'z']);
    await vi.advanceTimersByTimeAsync(66_000);
    expect(granted().at(-1)).toMatchObject({ name: 'large' });
  });

  it('notice within seconds that others used less than they took, or that the limit was raised', async () => {
    const { books, account } = useAccounts(2);
    const { ask, granted } = asks();
    const [here, there] = books as [AccountBook, AccountBook];
    const small = account('con', undefined, 1_000n);
    ask(there, 'x', small, { tokens: 900 });
    await vi.advanceTimersByTimeAsync(100);
    ask(here, 'waits', small, { tokens: 500, mayWait: true });
    await vi.advanceTimersByTimeAsync(1_000);
    there.settle(granted()[0]?.result as AccountPermit, 10);
    ask(there, 'next', small, { tokens: 1 });
    await vi.advanceTimersByTimeAsync(6_000);
    expect(granted().map(({ name }) => name)).toContain('waits');
    ask(here, 'more', small, { tokens: 900, mayWait: true });
    await vi.advanceTimersByTimeAsync(1_000);
    const raised = account('con', undefined, 100_000n);
    await vi.advanceTimersByTimeAsync(5_000);
    expect(granted().map(({ name }) => name)).toContain('more');
    ask(there, 'at once', raised, { tokens: 5_000 });
    await vi.advanceTimersByTimeAsync(100);
    expect(granted().at(-1)).toMatchObject({ name: 'at once' });
  });

  it('stop at all proxies when the vendor refuses one, and when it says that nothing is left', async () => {
    const { books, account } = useAccounts(2);
    const { ask, granted, refused } = asks();
    const sixty = account('con', 60);
    const [here, there] = books as [AccountBook, AccountBook];
    ask(here, 'x', sixty);
    await vi.advanceTimersByTimeAsync(100);
    here.refused(sixty, 'ada', 20_000);
    here.refused(sixty, 'bob', 20_000);
    await vi.advanceTimersByTimeAsync(100);
    ask(there, 'x', sixty);
    ask(here, 'x', sixty);
    await vi.advanceTimersByTimeAsync(100);
    expect([granted().length, refused().length]).toEqual([1, 2]);
    await vi.advanceTimersByTimeAsync(20_000);
    ask(there, 'x', sixty);
    await vi.advanceTimersByTimeAsync(100);
    there.heard(sixty, { requests: { left: 0, resetMs: 10_000 } });
    await vi.advanceTimersByTimeAsync(100);
    ask(here, 'x', sixty);
    await vi.advanceTimersByTimeAsync(100);
    expect([granted().length, refused().length]).toEqual([2, 3]);
    await vi.advanceTimersByTimeAsync(10_000);
    ask(here, 'x', sixty);
    await vi.advanceTimersByTimeAsync(100);
    expect(granted().length).toBe(3);
  });

  it.each(['cut off', 'without an answer'])(
    'use an even share %s, of which past grants are a part',
    async (how) => {
      const { books, account, state, control } = useAccounts(3);
      const { ask, granted } = asks();
      const sixty = account('con', 60);
      for (let at = 0; at < 8; at++) ask(books[0] as AccountBook, 'x', sixty);
      await vi.advanceTimersByTimeAsync(100);
      if (how === 'cut off') state.isLive = false;
      else control.isDown = true;
      for (let at = 0; at < 90; at++) ask(books[at % 3] as AccountBook, 'x', sixty);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(granted().length).toBe(60);
      await vi.advanceTimersByTimeAsync(66_000);
      for (let at = 0; at < 90; at++) ask(books[at % 3] as AccountBook, 'x', sixty);
      await vi.advanceTimersByTimeAsync(1_000);
      expect(granted().length).toBe(120);
    },
  );
});
