import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  BucketRefSchema,
  Outcome,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import {
  costOf,
  dearestPrices,
  type ModelPrice,
  NO_TOKENS,
  newUuid,
  parseAttribution,
  serviceConditions,
  standardUsage,
  type TokenUsage,
} from '@weighbridge/domain';
import {
  cutCost,
  eventHead,
  eventTail,
  isBeyondLedger,
  LIST_PRICE_DETAILS,
  type PriceDetails,
} from '@weighbridge/usage';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createDecodeCache } from './decodeCache.ts';
import { decodeBatch } from './decodeUsage.ts';

const price: ModelPrice = {
  version: 1,
  input: 1_000_000_000n,
  output: 2_000_000_000n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
  tiers: [],
  variants: [],
  toolPrices: {},
};
const dearest = dearestPrices([]);

function costOfTokens(usage: TokenUsage): bigint {
  return costOf(standardUsage(usage), price, dearest).costNanoUsd;
}

const BUCKET = create(BucketRefSchema, { policyId: 'pol_1', subject: 'principal:ada' });

interface Given {
  readonly input?: number;
  readonly usage?: TokenUsage;
  readonly durationMs?: number;
  readonly responseId?: string;
  readonly headers?: Record<string, string>;
  readonly details?: PriceDetails;
  readonly dropped?: readonly string[];
  readonly skipped?: readonly string[];
}

function parts({
  input = 0,
  usage: given,
  durationMs = 1,
  responseId = '',
  headers = {},
  details = LIST_PRICE_DETAILS,
  dropped = [],
  skipped = [],
}: Given) {
  const head = eventHead(
    {
      requestId: 'req_1',
      key: { id: 'key_1', principalId: 'ada', teamId: '', policies: [{ bucket: BUCKET }] },
      attribution: parseAttribution(headers),
      modelRequested: 'mock/echo',
      streamed: true,
      admittedAtMs: 1,
    },
    {
      eventId: newUuid(),
      model: 'mock/echo',
      connectorId: 'con_1',
      priceVersion: price.version,
      priceSource: 'catalog',
      attempt: 1,
      modelAttempt: 1,
    },
  );
  const usage = given ?? { ...NO_TOKENS, inputTokens: input, outputTokens: 1 };
  const dispatchedAt = performance.now() - durationMs;
  const tail = eventTail(
    {
      usage,
      details,
      dropped,
      skipped,
      costNanoUsd: cutCost(costOfTokens(usage)),
      estimated: false,
      outcome: Outcome.SUCCESS,
      status: 200,
      dispatchedAt,
      firstByteAt: performance.now(),
      responseId,
    },
    new Date(),
  );
  return { head, tail };
}

function settled(given: Given): UsageEvent {
  const { head, tail } = parts(given);
  return fromBinary(UsageEventSchema, Buffer.concat([head, tail]));
}

it('is whole when its two parts stand one after the other, and no field is in both', () => {
  const event = settled({ input: 7, responseId: 'r-1', headers: { 'x-svc-user': 'ada' } });
  expect(event).toMatchObject({
    requestId: 'req_1',
    keyId: 'key_1',
    principalId: 'ada',
    model: 'mock/echo',
    modelRequested: 'mock/echo',
    connectorId: 'con_1',
    usage: { input: 7, output: 1 },
    costNanoUsd: 9_000n,
    priceVersion: 1,
    outcome: Outcome.SUCCESS,
    httpStatus: 200,
    streamed: true,
    admittedAtMs: 1n,
    attribution: { user: 'ada' },
    responseId: 'r-1',
    attempt: 1,
    modelAttempt: 1,
  });
});

it('charges for what a vendor says beyond what an event can hold', () => {
  const event = settled({ input: 8_000_000_000 });
  expect(event.costNanoUsd).toBe(8_000_000_002_000n);
  expect(event.usage?.input).toBe(4_294_967_295);
  expect(toBinary(UsageEventSchema, event).length).toBeGreaterThan(0);
});

it('is taken by the ledger at its whole price, or goes to quarantine if no model can have used as much', () => {
  const count = fc.oneof(
    fc.constantFrom(
      0,
      1,
      10 ** 9,
      10 ** 9 + 1,
      2_147_483_647,
      2_147_483_648,
      2 ** 47,
      Number.MAX_SAFE_INTEGER,
    ),
    fc.nat(),
  );
  const usages: fc.Arbitrary<TokenUsage> = fc.record({
    inputTokens: count,
    cacheReadTokens: count,
    cacheWriteTokens: count,
    cacheWrite1hTokens: count,
    outputTokens: count,
    inputAudioTokens: count,
    inputImageTokens: count,
    cacheReadAudioTokens: count,
    outputAudioTokens: count,
    outputImageTokens: count,
  });
  fc.assert(
    fc.property(usages, (usage) => {
      const { head, tail } = parts({ usage });
      const payload = toBinary(
        UsageBatchSchema,
        create(UsageBatchSchema, {
          producerId: newUuid(),
          epoch: newUuid(),
          firstN: 1n,
          events: [Buffer.concat([head, tail])],
        }),
      );
      const { events, refused } = decodeBatch(payload, { from: new Date(0), before: new Date(2 ** 42) });
      const cost = costOfTokens(usage);
      const total = Object.values(usage).reduce((sum, tokens) => sum + tokens);
      const isBeyond =
        cost > 10n ** 15n || total > 2 ** 31 - 1 || Object.values(usage).some((tokens) => tokens > 10 ** 9);
      expect(isBeyondLedger({ usage, costNanoUsd: cost })).toBe(isBeyond);
      expect(refused).toHaveLength(isBeyond ? 1 : 0);
      if (!isBeyond) expect(events[0]?.row.cost_nano_usd).toBe(cost);
    }),
  );
});

it('is read by the ledger in place, and known again by who pays', () => {
  const known = createDecodeCache();
  const payers: unknown[] = [];
  const noting = {
    ...known,
    payer(bytes: Buffer, start: number, end: number) {
      const payer = known.payer(bytes, start, end);
      payers.push(payer);
      return payer;
    },
  };
  const events = [1, 2].map((input) => {
    const { head, tail } = parts({ input, responseId: `r-${input}`, headers: { 'x-svc-user': 'ada' } });
    return Buffer.concat([head, tail]);
  });
  const batch = create(UsageBatchSchema, { producerId: newUuid(), epoch: newUuid(), firstN: 1n, events });
  const ids = { from: new Date(0), before: new Date(2 ** 42) };
  expect(decodeBatch(toBinary(UsageBatchSchema, batch), ids, noting).refused).toEqual([]);
  // The library, which is left what is unusual, does not ask for what is known.
  expect(payers).toHaveLength(2);
  expect(payers[1]).toBe(payers[0]);
});

it('can be written down however long an attempt took and however much it cost', () => {
  const event = settled({ input: Number.MAX_SAFE_INTEGER, durationMs: 5_000_000 });
  expect(event).toMatchObject({
    durationUs: 2_147_483_647,
    firstByteUs: 2_147_483_647,
    costNanoUsd: 10n ** 15n + 1n,
  });
  expect(toBinary(UsageEventSchema, event).length).toBeGreaterThan(0);
});

it('makes no event that a message of the stream could not hold', () => {
  const value = Buffer.from('€'.repeat(10_000)).toString('latin1');
  const names = [
    'user',
    'team',
    'project',
    'env',
    'namespace',
    'workload',
    'pod',
    'session-id',
    'workload-type',
  ];
  const headers = Object.fromEntries(names.map((name) => [`x-svc-${name}`, value]));
  const labels = Array.from({ length: 100 }, (_, at) => `${String(at).padEnd(64, 'k')}=${value}`).join(',');
  const event = settled({
    input: 1,
    responseId: '€'.repeat(512),
    headers: { ...headers, 'x-svc-labels': labels },
  });
  expect(toBinary(UsageEventSchema, event).length).toBeLessThan(64 * 1024);
});

it('has no tail beyond what the spool keeps free for it, and none of an id that is not whole', () => {
  for (const responseId of ['€'.repeat(341), '€'.repeat(512)]) {
    const name = '€'.repeat(1_000);
    const names = Array.from({ length: 100 }, (_, at) => `${at}${name}`);
    const details = {
      service: serviceConditions(name, name, name),
      toolUses: Object.fromEntries(names.map((tool) => [tool, Number.MAX_SAFE_INTEGER])),
      unpriced: names,
      pricedModel: name,
    };
    const { tail } = parts({
      input: Number.MAX_SAFE_INTEGER,
      durationMs: 5_000_000,
      responseId,
      details,
      dropped: names,
      skipped: names,
    });
    expect(tail.length).toBeLessThan(4_096);
    expect(['', responseId]).toContain(fromBinary(UsageEventSchema, tail).responseId);
  }
});

it('has the models that were passed over', () => {
  const skipped = ['mock/large large models', '2 more'];
  const { head, tail } = parts({ skipped });
  const { details } = fromBinary(UsageEventSchema, Buffer.concat([head, tail]));
  expect(details).toMatchObject({ skipped, dropped: [] });
});

it('has what the vendor did not get', () => {
  const { head, tail } = parts({ dropped: ['é changed', 'b dropped'] });
  const { details } = fromBinary(UsageEventSchema, Buffer.concat([head, tail]));
  expect(details).toMatchObject({ dropped: ['? changed', 'b dropped'], unpriced: [], serviceTier: '' });
  expect(fromBinary(UsageEventSchema, parts({}).tail).details).toBeUndefined();
});

it('has the conditions that the price depends on', () => {
  const details = {
    service: serviceConditions('priority', 'fast', 'us'),
    toolUses: { web_search: 3 },
    unpriced: ['speed:fast'],
    pricedModel: 'mock/other',
  };
  const { head, tail } = parts({ input: 7, details });
  const event = fromBinary(UsageEventSchema, Buffer.concat([head, tail]));
  expect(event.details).toMatchObject({
    serviceTier: 'priority',
    speed: 'fast',
    geography: 'us',
    toolUses: { web_search: 3 },
    unpriced: ['speed:fast'],
    pricedModel: 'mock/other',
  });
});
