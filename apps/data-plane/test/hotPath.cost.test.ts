import { create } from '@bufbuild/protobuf';
import { Enforcement, KeySchema, Outcome } from '@weighbridge/contracts';
import { SseSplitter } from '@weighbridge/dialects';
import { NO_TOKENS, newUuid, parseAttribution } from '@weighbridge/domain';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { resolvedKey } from '@weighbridge/state';
import { expectCost } from '@weighbridge/testing';
import { eventHead, eventTail, LIST_PRICE_DETAILS } from '@weighbridge/usage';
import { describe, it } from 'vitest';
import { chatFormat } from '../src/formats/chatFormat.ts';
import { CHAT_COMPLETIONS } from '../src/formats/operation.ts';
import { scanObject } from '../src/formats/scanJson.ts';
import { StreamTap } from '../src/formats/streamTap.ts';
import type { ObservedModelRequest } from '../src/observe/observedAttempt.ts';
import { createObserver } from '../src/observe/observer.ts';
import { OverheadWindow } from '../src/observe/overheadWindow.ts';
import { openTestLimits } from './limits.ts';

// The cost of the code on the path of each request, in bytes of JSON that are parsed in the same time. Each bound is below twice
// the measured cost, so that code that became twice as slow fails: `pnpm bench` measures the rest. Measured on Node 20 and 24.

const KIB = 1_024;
const WANTED = new Set(['model', 'stream', 'max_tokens']);

function prompt(bytes: number): Buffer {
  const content = 'What does a weighbridge "weigh"?\n'.repeat(Math.ceil(bytes / 36));
  return Buffer.from(
    JSON.stringify({ model: 'mock/echo', stream: true, messages: [{ role: 'user', content }] }),
  );
}

function events(count: number): Buffer[] {
  const chunk = (at: number) => ({
    id: 'chatcmpl-1',
    object: 'chat.completion.chunk',
    choices: [{ index: 0, delta: { content: ` word ${at}` } }],
    usage: null,
  });
  return Array.from({ length: count }, (_, at) => Buffer.from(`data: ${JSON.stringify(chunk(at))}\n\n`));
}

describe('the cost of a request is bounded:', () => {
  it('scanning a body, per byte, of any length', () => {
    for (const [size, cost] of [
      [KIB, 345],
      [16 * KIB, 3_250],
      [256 * KIB, 49_000],
    ] as const) {
      const body = prompt(size);
      expectCost(`scanning ${size} bytes`, () => scanObject(body, WANTED), cost);
    }
  });

  it('reading a stream, per event, for any number of events', () => {
    for (const [count, splitting, splitting24, tapping, tapping24] of [
      [40, 450, 840, 8_000, 9_500],
      [1_000, 13_400, 23_000, 186_000, 221_000],
    ] as const) {
      const chunks = events(count);
      const split = () => {
        const splitter = new SseSplitter();
        for (const chunk of chunks) splitter.push(chunk);
      };
      const tap = () => {
        const reader = new StreamTap({ format: chatFormat, hideUsage: true });
        for (const chunk of chunks) reader.push(chunk);
      };
      expectCost(`splitting ${count} events`, split, splitting, splitting24);
      expectCost(`tapping ${count} events`, tap, tapping, tapping24);
    }
  });

  it('buffering an event in pieces, per piece', () => {
    for (const [pieces, cost, cost24] of [
      [10, 556, 880],
      [2_000, 89_000, 144_000],
    ] as const) {
      const [event = Buffer.alloc(0)] = events(1);
      const long = Buffer.concat([Buffer.alloc(pieces * 64, 'data: x\n'), event]);
      const push = () => {
        const splitter = new SseSplitter();
        for (let at = 0; at < long.length; at += 64) splitter.push(long.subarray(at, at + 64));
      };
      expectCost(`${pieces} pieces of an event`, push, cost, cost24);
    }
  });

  it('reserving and settling, for any number of buckets', async () => {
    const { budget } = openTestLimits(() => ({ limitNanoUsd: 10n ** 18n, spentNanoUsd: 0n }));
    const chain = keyOn('policy_team', 'policy_department').budgets;
    const reserve = async (policies: typeof chain) => {
      const held = await budget.reserve(policies, 1_000n, { showsParentFigures: false });
      if (!held) throw new Error('there was to be room');
      budget.settle(held, 1_000n);
    };
    await reserve(chain);
    const once = () => {
      const held = budget.tryReserve(chain, 1_000n);
      if (!held) throw new Error('there was to be room');
      budget.settle(held, 999n);
    };
    expectCost('reserving and settling', once, 38);
    for (let at = 0; at < 6_000; at++) await reserve(keyOn(`policy_${at}`).budgets);
    expectCost('reserving and settling beside 6,000 others', once, 40, 42);
  });

  it('encoding an event', () => {
    const encode = encodeEvent();
    expectCost('encoding', encode, 365);
  });

  it('observing a request', () => {
    expectCost('observing', observeRequest(), 92);
  });
});

/** A key whose policies all have a budget. */
function keyOn(...policyIds: readonly string[]) {
  const policies = policyIds.map((policyId) => ({
    bucket: { policyId, counterVersion: 1, subject: 'policy', windowStartMs: 0n },
    limitNanoUsd: 10n ** 18n,
    enforcement: Enforcement.ENFORCE,
  }));
  return resolvedKey(create(KeySchema, { id: 'key_1', principalId: 'ada', policies }));
}

/** The cost of observing a streamed request with one attempt, neither logged nor traced. */
function observeRequest(): () => void {
  const logger = createLogger('test');
  const observer = createObserver({
    metrics: createMetrics(),
    overhead: new OverheadWindow(() => performance.now()),
    log: { logger, successRatio: 0 },
    tracing: undefined,
  });
  const key = keyOn('policy_team', 'policy_department');
  const begun = { id: 'req_1', endpoint: 'chat_completions' as const, receivedAt: 0, key };
  const work = {
    model: { id: 'mock/echo' },
    connector: { id: 'con_1', provider: 'mock' },
    generation: { operation: CHAT_COMPLETIONS },
  } as unknown as ObservedModelRequest;
  const { end } = settledAttempt();
  return () => {
    const observed = observer.begin(begun, {});
    observed.streamed = true;
    observed.overheadMs = 0.2;
    observer.attempted(observed, work, end);
    observer.answered(observed, 200);
  };
}

function settledAttempt() {
  const usage = { ...NO_TOKENS, inputTokens: 256, outputTokens: 40 };
  const end = {
    usage,
    details: LIST_PRICE_DETAILS,
    costNanoUsd: 12_345n,
    estimated: false,
    outcome: Outcome.SUCCESS,
    status: 200,
    dispatchedAt: 1,
    firstByteAt: 2,
    responseId: 'chatcmpl-1',
    dropped: [],
    skipped: [],
  };
  return { end };
}

function encodeEvent(): () => void {
  const attempted = {
    requestId: `req_${newUuid()}`,
    key: keyOn('policy_team', 'policy_department'),
    attribution: parseAttribution({}),
    modelRequested: 'mock/echo',
    streamed: true,
    admittedAtMs: 1,
  };
  const start = {
    eventId: newUuid(),
    model: 'mock/echo',
    connectorId: 'con_1',
    priceVersion: 1,
    priceSource: 'catalog' as const,
    attempt: 1,
    modelAttempt: 1,
  };
  const now = new Date();
  const { end } = settledAttempt();
  return () => {
    eventHead(attempted, start);
    eventTail(end, now);
  };
}
