import { create, toBinary } from '@bufbuild/protobuf';
import { ConnectorSchema, Outcome, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { type ModelPrice, newUuid, parseAttribution } from '@weighbridge/domain';
import { expect, it } from 'vitest';
import { noFacts } from '../answer/answerFormat.ts';
import { settle } from './settle.ts';

const price: ModelPrice = {
  version: 1,
  input: 1_000_000_000n,
  output: 2_000_000_000n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
  tiers: [],
};

interface Given {
  readonly input: number;
  readonly durationMs?: number;
  readonly responseId?: string;
  readonly headers?: Record<string, string>;
}

function settled({ input, durationMs = 1, responseId = '', headers = {} }: Given): UsageEvent {
  const events: UsageEvent[] = [];
  const dispatchedAt = performance.now() - durationMs;
  settle(
    { newEventId: newUuid, now: () => new Date(), publish: (event) => void events.push(event) },
    {
      requestId: 'req_1',
      key: {
        id: 'key_1',
        principalId: 'ada',
        disabled: false,
        isOperator: false,
        expiresAtMs: undefined,
        attribution: {},
        policies: [],
      },
      attribution: parseAttribution(headers),
      modelRequested: 'mock/echo',
      model: { id: 'mock/echo', provider: 'mock', upstreamName: 'echo', price, free: false },
      streamed: true,
      admittedAtMs: 1,
    },
    {
      connector: { ...create(ConnectorSchema, { id: 'con_1' }), serves: () => true, negotiated: new Map() },
      dispatchedAt,
      outcome: Outcome.SUCCESS,
      status: 200,
      facts: { ...noFacts(), responseId },
      firstByteAt: performance.now(),
      output: () => ({ text: '', ratio: 1 }),
    },
    {
      usage: {
        inputTokens: input,
        cacheReadTokens: 0,
        cacheWriteTokens: 0,
        cacheWrite1hTokens: 0,
        outputTokens: 1,
      },
      estimated: false,
    },
  );
  const [event] = events;
  if (!event) throw new Error('nothing was published');
  return event;
}

it('charges for what a vendor says beyond what an event can hold', () => {
  const event = settled({ input: 8_000_000_000 });
  expect(event.costNanoUsd).toBe(8_000_000_002_000n);
  expect(event.usage?.input).toBe(2_147_483_647);
  expect(toBinary(UsageEventSchema, event).length).toBeGreaterThan(0);
});

it('can be written down however long an attempt took and however much it cost', () => {
  const event = settled({ input: Number.MAX_SAFE_INTEGER, durationMs: 5_000_000 });
  expect(event).toMatchObject({
    durationUs: 2_147_483_647,
    firstByteUs: 2_147_483_647,
    costNanoUsd: 10n ** 16n,
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
