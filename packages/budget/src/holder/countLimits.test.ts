import { describe, expect, it } from 'vitest';
import { bookOf, budgeted, LeaseWorld, settleDown } from '../../test/leaseWorld.ts';
import { type CountUnit, furtherLimitId } from '../bucketRef.ts';
import type { LeaseBook } from './leaseBook.ts';

const NO_FIGURES = { showsParentFigures: false };

function limitOf(unit: CountUnit | undefined) {
  const limit = { id: 'lim_1', name: 'trial', scope: 'policy', models: [], value: undefined, unit };
  return budgeted(furtherLimitId('pol_1', 'lim_1', unit), { limit, windowEndMs: 86_400_000 });
}

/** A policy's budget, and a further limit of money, 5 requests and 1,000 tokens. */
function scene() {
  const world = new LeaseWorld();
  const [main, money, requests, tokens] = [
    budgeted('pol_1'),
    limitOf(undefined),
    limitOf('requests'),
    limitOf('tokens'),
  ];
  for (const { bucketKey } of [main, money]) world.limits.set(bucketKey, 1_000_000n);
  world.limits.set(requests.bucketKey, 5n);
  world.limits.set(tokens.bucketKey, 1_000n);
  return { world, main, money, requests, tokens, set: [main, money, requests, tokens] };
}

const everything = { useful: 1_000_000_000n, least: 1n };

describe('a limit of requests and tokens', () => {
  it('holds the estimated cost, one request and the estimated tokens, and is charged what each counts', async () => {
    const { world, set, main, requests, tokens } = scene();
    const book = bookOf(world, '1');
    const held = await book.reserve(set, 500n, NO_FIGURES, 90n);
    if (!held) throw new Error('the reservation failed');
    const reserved = held.entries.map(({ lease }) => lease.reserved);
    expect(reserved).toEqual([500n, 500n, 1n, 90n]);
    book.settle(held, 400n, { requests: 1n, tokens: 120n });
    expect(held.entries.map(({ lease }) => lease.reserved)).toEqual([0n, 0n, 0n, 0n]);
    // What each has left is what its lease was granted, less the charge.
    const left = held.entries.map(({ lease }) => lease.available);
    const granted = [main, set[1], requests, tokens].map((one) => world.hold(one?.bucketKey ?? ''));
    expect(left).toEqual([400n, 400n, 1n, 120n].map((charge, at) => (granted[at] ?? 0n) - charge));
  });

  it('passes as many requests as it allows, over all proxies, however many are sent at once', async () => {
    const { world, set } = scene();
    let nowMs = 0;
    const books = ['1', '2', '3'].map((epoch) => bookOf(world, epoch, { nowMs: () => nowMs++ }));
    const ends = Array.from({ length: 64 }, async (_, at) => {
      return await (books[at % 3] as LeaseBook).reserve(set, 10n, NO_FIGURES, 10n);
    });
    const outcomes = await Promise.allSettled(ends);
    const passed = outcomes.filter(({ status }) => status === 'fulfilled');
    expect(passed).toHaveLength(5);
  });

  it('leaves nothing reserved in the rest of the set when one of its amounts refuses', async () => {
    const { world, set, main } = scene();
    const book = bookOf(world, '1');
    await expect(book.reserve(set, 10n, NO_FIGURES, 1_001n)).rejects.toMatchObject({
      code: 'token_limit_exhausted',
    });
    const next = await book.reserve([main], 10n, NO_FIGURES);
    expect(next?.entries.map(({ lease }) => lease.reserved)).toEqual([10n]);
  });

  it.each([
    ['requests', 'request_limit_exhausted', 'The limit trial is used up: 5 of 5 requests are spent.'],
    ['tokens', 'token_limit_exhausted', 'The limit trial is used up: 1000 of 1000 tokens are spent.'],
    [
      'money',
      'budget_exhausted',
      'The budget of the limit trial is used up: 1000 micro-USD of 1000 micro-USD are spent.',
    ],
  ] as const)('refuses %s that are used up with a code of their own', async (name, code, message) => {
    const { world, set, ...amounts } = scene();
    const refusing = amounts[name];
    world.spent.set(refusing.bucketKey, world.limits.get(refusing.bucketKey) ?? 0n);
    const error = await bookOf(world, '1')
      .reserve(set, 10n, NO_FIGURES, 10n)
      .catch((reason) => reason);
    expect(error).toMatchObject({
      kind: 'quota',
      code,
      headers: { 'x-should-retry': 'false' },
      details: { limit_id: 'lim_1', limit: 'trial', counter_scope: 'policy', value: null },
      counter: { limits: name === 'money' ? 'budget' : `limit_${name}` },
    });
    expect(error.message).toContain(`${message} It resets at 1970-01-02T00:00:00.000Z.`);
  });

  it('says which output limit fits the tokens that are left', async () => {
    const { world, set, tokens } = scene();
    world.spent.set(tokens.bucketKey, 900n);
    const output = {
      field: 'max_tokens',
      isSet: true,
      within: (amount: bigint, unit?: CountUnit) => (unit === 'tokens' ? Number(amount) - 30 : undefined),
    };
    await expect(bookOf(world, '1').reserve(set, 10n, { ...NO_FIGURES, output }, 530n)).rejects.toMatchObject(
      {
        code: 'token_limit_exhausted',
        param: 'max_tokens',
        details: { estimate_tokens: 530, limit_tokens: 1_000, spent_tokens: 900 },
        message: expect.stringContaining(
          '(100 tokens) does not cover this request, which may use 530 tokens',
        ),
      },
    );
  });

  it('tells the headroom in tokens beside that in money', async () => {
    const { world, set } = scene();
    const book = bookOf(world, '1');
    expect(await book.headroom(set, { nanoUsd: everything, tokens: everything })).toEqual({
      nanoUsd: 1_000_000n,
      tokens: 1_000n,
    });
    await settleDown();
  });
});
