import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { type LeaseRequestSchema, type LeaseResponse, LeaseResponseSchema } from '@weighbridge/contracts';
import { AppError } from '@weighbridge/errors';
import { describe, expect, it } from 'vitest';
import type { RateLimitedPolicy } from '../policies.ts';
import { RateBook, type RateReservation } from './rateBook.ts';

function rated(more: Partial<RateLimitedPolicy> = {}): RateLimitedPolicy {
  return {
    policyId: 'p',
    counterVersion: 1,
    subject: 'policy',
    counterKey: 'p/1/policy',
    requestsPerMinute: undefined,
    tokensPerMinute: undefined,
    maxParallel: undefined,
    enforcement: 'enforce',
    ...more,
  };
}

async function admit(
  book: RateBook,
  policies: readonly RateLimitedPolicy[],
  tokens: number,
): Promise<RateReservation> {
  return await book.admit(policies, tokens);
}

/** The control plane's side: it grants what proxies may not use without asking, minute by minute. */
class World {
  clockMs = 1_790_000_000_000;
  live = 4;
  isLive = true;
  calls = 0;
  askedTokens = 0;
  readonly #policy: RateLimitedPolicy;
  readonly #granted = new Map<bigint, { requests: number; tokens: number }>();

  constructor(policy: RateLimitedPolicy) {
    this.#policy = policy;
  }

  book(shadow: string[] = []): RateBook {
    return new RateBook({
      call: (request) => this.#call(request),
      producerId: 'p',
      epoch: 'e',
      clockMs: () => this.clockMs,
      liveProxies: () => this.live,
      isLive: () => this.isLive,
      onShadowRefusal: (policyId) => shadow.push(policyId),
    });
  }

  async #call(request: MessageInitShape<typeof LeaseRequestSchema>): Promise<LeaseResponse> {
    this.calls++;
    await Promise.resolve();
    const rates = (request.rates ?? []).map((call) => {
      const minute = call.minute ?? 0n;
      this.askedTokens += Number(call.tokens ?? 0n);
      const granted = this.#granted.get(minute) ?? { requests: 0, tokens: 0 };
      this.#granted.set(minute, granted);
      const shared = (limit = 0) => limit - this.live * Math.floor(limit / (4 * this.live));
      const take = (limit: number | undefined, wanted: bigint | undefined, before: number) =>
        Math.max(0, Math.min(Number(wanted ?? 0n), shared(limit) - before));
      const requests = take(this.#policy.requestsPerMinute, call.requests, granted.requests);
      const tokens = take(this.#policy.tokensPerMinute, call.tokens, granted.tokens);
      granted.requests += requests;
      granted.tokens += tokens;
      const left = (limit: number | undefined, before: number) => BigInt(Math.max(0, shared(limit) - before));
      return {
        minute,
        requests: BigInt(requests),
        tokens: BigInt(tokens),
        requestsLeft: left(this.#policy.requestsPerMinute, granted.requests),
        tokensLeft: left(this.#policy.tokensPerMinute, granted.tokens),
      };
    });
    return create(LeaseResponseSchema, { budgets: [], rates });
  }
}

async function refusal(admitted: Promise<unknown>): Promise<AppError> {
  const error = await admitted.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof AppError)) throw new Error('it was admitted');
  return error;
}

describe('rate limits', () => {
  it.each([40, 100, 1_000, 6_000])(
    'admit %i requests per minute over four proxies, no more, and nearly all where one proxy gets all requests',
    async (limit) => {
      const policy = rated({ requestsPerMinute: limit });
      const world = new World(policy);
      const books = Array.from({ length: 4 }, () => world.book());
      const run = async (use: readonly RateBook[]) => {
        let admitted = 0;
        for (let request = 0; request < limit * 2; request++) {
          const book = use[request % use.length] as RateBook;
          const hold = await admit(book, [policy], 0).catch(() => undefined);
          if (!hold) continue;
          admitted++;
          book.settle(hold, 0);
        }
        return admitted;
      };
      const together = await run(books);
      expect(together).toBeLessThanOrEqual(limit);
      expect(together).toBeGreaterThanOrEqual(limit * 0.9);
      world.clockMs += 60_000;
      // The other three retain their quarters.
      const alone = await run(books.slice(0, 1));
      expect(alone).toBeLessThanOrEqual(limit);
      expect(alone).toBeGreaterThanOrEqual(Math.floor(limit * 0.75));
    },
  );

  it.each([1, 2, 3, 5, 7, 10])('admit all of %i requests per minute, however few', async (limit) => {
    const policy = rated({ requestsPerMinute: limit });
    const world = new World(policy);
    world.live = 1;
    const book = world.book();
    for (let request = 0; request < limit; request++) await admit(book, [policy], 0);
    expect(book.figures([policy])).toMatchObject({ requestsLeft: 0 });
    await refusal(admit(book, [policy], 0));
  });

  it('report only what this proxy can admit while the control plane is down', async () => {
    const policy = rated({ requestsPerMinute: 40 });
    const world = new World(policy);
    world.isLive = false;
    const book = world.book();
    await admit(book, [policy], 0);
    expect(book.figures([policy])).toMatchObject({ requestsLeft: 9 });
  });

  it('call the control plane seldom', async () => {
    const policy = rated({ requestsPerMinute: 600_000 });
    const world = new World(policy);
    const book = world.book();
    for (let request = 0; request < 100_000; request++) book.settle(await admit(book, [policy], 0), 0);
    expect(world.calls).toBeLessThanOrEqual(10);
  });

  it('say when to retry', async () => {
    const policy = rated({ requestsPerMinute: 4 });
    const world = new World(policy);
    const book = world.book();
    for (let request = 0; request < 4; request++) await admit(book, [policy], 0).catch(() => {});
    const error = await refusal(admit(book, [policy], 0));
    expect(error).toMatchObject({
      kind: 'rate_limit',
      code: 'rate_limit_exceeded',
      headers: { 'x-should-retry': 'true' },
    });
    world.clockMs += Number(error.headers['retry-after']) * 1_000;
    await expect(admit(book, [policy], 0)).resolves.toBeDefined();
  });

  it('count the tokens used, and carry overuse into the next minute', async () => {
    const policy = rated({ tokensPerMinute: 1_000 });
    const world = new World(policy);
    world.live = 1;
    const book = world.book();
    const first = await admit(book, [policy], 400);
    book.settle(first, 10);
    const second = await admit(book, [policy], 900);
    book.settle(second, 2_600);
    await refusal(admit(book, [policy], 100));
    world.clockMs += 60_000;
    await refusal(admit(book, [policy], 100));
    world.clockMs += 120_000;
    await expect(admit(book, [policy], 100)).resolves.toBeDefined();
  });

  it('count a request without tokens as a request, even in token debt, and leave tokens unchanged', async () => {
    const policy = rated({ requestsPerMinute: 8, tokensPerMinute: 1_000 });
    const world = new World(policy);
    world.live = 1;
    const book = world.book();
    const tokens = () => book.figures([policy])?.tokensLeft;
    book.settle(await admit(book, [policy], 0), 0);
    expect(tokens()).toBe(1_000);
    book.settle(await admit(book, [policy], 100), 1_500);
    await refusal(admit(book, [policy], 100));
    for (let hit = 0; hit < 6; hit++) book.settle(await admit(book, [policy], 0), 0);
    expect(await refusal(admit(book, [policy], 0))).toMatchObject({
      message: expect.stringContaining('8 requests per minute'),
    });
    world.clockMs += 60_000;
    // Each minute's own share pays the debt: requests without tokens ask for none.
    for (const left of [500, 750, 1_000]) {
      book.settle(await admit(book, [policy], 0), 0);
      expect(tokens()).toBe(left);
      world.clockMs += 60_000;
    }
  });

  it('ask for no tokens for a request without any, and for no fewer because of it', async () => {
    const policy = rated({ requestsPerMinute: 8, tokensPerMinute: 1_000 });
    const world = new World(policy);
    const book = world.book();
    for (let hit = 0; hit < 4; hit++) book.settle(await admit(book, [policy], 0), 0);
    expect(world.calls).toBeGreaterThan(0);
    expect(world.askedTokens).toBe(0);
    const needy = admit(book, [policy], 500);
    const hit = admit(book, [policy], 0);
    await Promise.all([needy, hit]);
    expect(world.askedTokens).toBe(500 - 62);
  });

  it('tell a request that can never pass not to retry', async () => {
    const policy = rated({ tokensPerMinute: 1_000 });
    const error = await refusal(admit(new World(policy).book(), [policy], 1_001));
    expect(error.headers['x-should-retry']).toBe('false');
    expect(error.message).toContain('max_tokens');
  });

  it('share a limit evenly while the control plane is down, and never answer 503', async () => {
    const policy = rated({ requestsPerMinute: 100 });
    const world = new World(policy);
    world.isLive = false;
    const book = world.book();
    let admitted = 0;
    for (let request = 0; request < 100; request++) {
      const error = await admit(book, [policy], 0).then(
        () => undefined,
        (reason: AppError) => reason,
      );
      if (error) expect(error.kind).toBe('rate_limit');
      else admitted++;
    }
    expect([admitted, world.calls]).toEqual([25, 0]);
  });

  it("admit no more parallel requests than the proxy's share", async () => {
    const policy = rated({ maxParallel: 8 });
    const book = new World(policy).book();
    const [first] = await Promise.all([admit(book, [policy], 0), admit(book, [policy], 0)]);
    expect(await refusal(admit(book, [policy], 0))).toMatchObject({ headers: { 'retry-after': '1' } });
    book.settle(first, 0);
    await expect(admit(book, [policy], 0)).resolves.toBeDefined();
  });

  it.each([
    [5, 3, 1],
    [8, 3, 2],
    [2, 4, 1],
  ])(
    'of %i parallel requests over %i proxies admit %i at each, and never none',
    async (most, proxies, here) => {
      const policy = rated({ maxParallel: most });
      const world = new World(policy);
      world.live = proxies;
      const book = world.book();
      for (let request = 0; request < here; request++) await admit(book, [policy], 0);
      await refusal(admit(book, [policy], 0));
    },
  );

  it('begin the minute of each counter at its own time', () => {
    const policies = Array.from({ length: 50 }, (_, n) =>
      rated({ counterKey: `p/1/${n}`, requestsPerMinute: 10 }),
    );
    const book = new World(rated()).book();
    const resets = policies.map((policy) => book.figures([policy])?.resetMs);
    expect(new Set(resets).size).toBeGreaterThan(45);
  });

  it('only count what a shadow policy would have refused', async () => {
    const policy = rated({ maxParallel: 1, enforcement: 'shadow' });
    const refused: string[] = [];
    const book = new World(policy).book(refused);
    await admit(book, [policy], 0);
    await admit(book, [policy], 0);
    expect(refused).toEqual(['p']);
  });

  it('report the limit with the least left', async () => {
    const wide = rated({ counterKey: 'wide', requestsPerMinute: 1_000 });
    const tight = rated({ requestsPerMinute: 10, tokensPerMinute: 1_000 });
    const world = new World(tight);
    world.live = 1;
    const book = world.book();
    expect(book.figures([rated()])).toBeUndefined();
    await admit(book, [wide, tight], 100);
    expect(book.figures([wide, tight])).toMatchObject({
      requestsLimit: 10,
      requestsLeft: 9,
      tokensLimit: 1_000,
      tokensLeft: 900,
    });
  });
});

it('a request that is taken back leaves nothing behind: no request, no tokens, no place', async () => {
  const policy = rated({ requestsPerMinute: 4, tokensPerMinute: 400, maxParallel: 1 });
  const world = new World(policy);
  world.live = 1;
  const book = world.book();
  const before = book.figures([policy]);
  for (let n = 0; n < 20; n++) book.undo(await admit(book, [policy], 100));
  expect(book.figures([policy])).toEqual(before);
  // Of an earlier minute, there is nothing to take back but its place.
  const late = await admit(book, [policy], 100);
  world.clockMs += 60_000;
  const next = await admit(book, [rated({ ...policy, maxParallel: 2 })], 100);
  book.undo(late);
  expect(book.figures([policy])).toMatchObject({ requestsLeft: 3, tokensLeft: 300 });
  book.settle(next, 100);
});

describe('the rates of a further limit', () => {
  const NAMED = { id: 'lim_1', name: 'each user', scope: 'user', models: [] };

  /** The counter of a value that a key names. */
  function ofUser(user: string, keyId = 'key_1', maxCounters = 2): RateLimitedPolicy {
    const at = (subject: string, limit: RateLimitedPolicy['limit']) => {
      const [policyId, counterKey] = ['pol_1.lim_1', `pol_1.lim_1/1/${subject}`];
      return rated({ policyId, subject, counterKey, requestsPerMinute: 4, limit });
    };
    const others = at('others', { ...NAMED, value: undefined });
    return at(`user:${user}`, { ...NAMED, value: user, opening: { keyId, maxCounters, others } });
  }

  function bookOf(policy: RateLimitedPolicy) {
    const world = new World(policy);
    world.live = 1;
    world.isLive = false;
    return { world, book: world.book() };
  }

  it('refuse with the name of the limit and the value that the caller named', async () => {
    const { book } = bookOf(ofUser('ann'));
    for (let n = 0; n < 4; n++) book.settle(await admit(book, [ofUser('ann')], 0), 0);
    const { details, headers, message } = await refusal(admit(book, [ofUser('ann')], 0));
    expect(details).toEqual({
      ...{ limit_id: 'lim_1', limit: 'each user', counter_scope: 'user', value: 'ann' },
    });
    expect(headers).toHaveProperty('retry-after');
    expect(message).toContain('The limit each user for user ann allows 4 requests per minute');
    await admit(book, [ofUser('bob')], 0);
  });

  it('have as many counters for the values of a key in a minute as the limit says: further ones share one', async () => {
    const { book, world } = bookOf(ofUser('ann'));
    const passedOf = async (users: readonly string[], keyId?: string) => {
      let passed = 0;
      for (const user of users) {
        for (let n = 0; n < 6; n++) {
          const hold = await admit(book, [ofUser(user, keyId)], 0).catch(() => undefined);
          if (hold) passed++;
          if (hold) book.settle(hold, 0);
        }
      }
      return passed;
    };
    const invented = Array.from({ length: 50 }, (_, n) => `user ${n}`);
    expect(await passedOf(invented)).toBe(3 * 4);
    const refused = await refusal(admit(book, [ofUser('another')], 0));
    expect(refused.details).toMatchObject({ limit: 'each user', value: null });
    // Another key has its own.
    expect(await passedOf(['cy', 'dee'], 'key_2')).toBe(2 * 4);
    world.clockMs += 2 * 60_000;
    expect(await passedOf(invented.slice(10))).toBe(3 * 4);
  });

  it('take a bounded number of counters, whatever the limit says, and give them back', async () => {
    const { book, world } = bookOf(ofUser('ann'));
    const opens = async (keyId: string) => {
      let own = 0;
      for (let n = 0; n < 10_100; n++) {
        const admitted = book.admit([ofUser(`${keyId} ${n}`, keyId, 10_000_000)], 0);
        // Those that share a counter have to wait for what it may get.
        const hold = admitted instanceof Promise ? await admitted.catch(() => undefined) : admitted;
        if (hold) book.settle(hold, 0);
        if (hold?.counters.every(({ counter }) => counter.subject !== 'others')) own++;
      }
      return own;
    };
    const opened = [];
    for (let n = 0; n < 21; n++) opened.push(await opens(`key ${n}`));
    expect(opened.slice(0, 19)).toEqual(Array.from({ length: 19 }, () => 10_000));
    expect(opened.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(200_000);
    world.clockMs += 2 * 60_000;
    expect(await opens('late')).toBe(10_000);
  });
});
