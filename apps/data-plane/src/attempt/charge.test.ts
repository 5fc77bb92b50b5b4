import { create } from '@bufbuild/protobuf';
import { ConnectorSchema, OnDisconnect, Outcome } from '@weighbridge/contracts';
import { dearestPrices, NO_TOKENS } from '@weighbridge/domain';
import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { CHAT_COMPLETIONS, MESSAGES, OPERATIONS, type Operation, RESPONSES } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { noFacts, type ResponseFacts } from '../formats/responseFormat.ts';
import { type ChargedAttempt, chargeFor } from './charge.ts';
import { isStreamCancelledIfLeft } from './disconnects.ts';
import type { PreparedRequest } from './preparedRequest.ts';

const price = {
  input: 1n,
  output: 1n,
  cacheRead: 1n,
  cacheWrite: 1n,
  cacheWrite1h: 1n,
  version: 1,
  tiers: [],
  variants: [],
  toolPrices: {},
};
const RESERVE = { inputTokens: 900, outputTokens: 100, costNanoUsd: 1_000n };
const RESERVED = { costNanoUsd: 1_000n, usage: { inputTokens: 900, outputTokens: 100 }, estimated: true };

interface Given {
  readonly operation?: Operation;
  readonly request?: object;
  readonly capabilities?: readonly string[];
  readonly provider?: string;
  readonly onDisconnect?: OnDisconnect;
  readonly isHard?: boolean;
}

/** Under a hard budget. */
const HARD = {
  addedInputTokens: 0,
  toolUses: {},
  removedTools: [],
  cuts: [],
  limit: undefined,
  removedFields: [],
};

function prepared({
  operation = CHAT_COMPLETIONS,
  request = {},
  capabilities = ['tools'],
  provider = 'openai',
  onDisconnect = OnDisconnect.UNSPECIFIED,
  isHard = false,
}: Given): PreparedRequest {
  const text = JSON.stringify({
    model: 'mock/echo',
    messages: [{ role: 'user', content: 'hi' }],
    ...request,
  });
  const body = new RequestBody([Buffer.from(text)]);
  const model = {
    id: 'mock/echo',
    provider: 'mock',
    upstreamName: 'echo',
    otherNames: [],
    own: true,
    price,
    dearest: dearestPrices([]),
    free: false,
    maxOutputTokens: 500,
    contextWindow: 8_000,
    score: undefined,
    capabilities,
  };
  const connector = {
    ...create(ConnectorSchema, { id: 'con_1', provider, onDisconnect }),
    serves: () => true,
    negotiated: new Map(),
  };
  const generation = { ...readGenerationRequest(operation, body), ...(isHard && { hard: HARD }) };
  return { connector, body, modelRequest: { model, connector, generation } };
}

const chargeOf = async (
  facts: Partial<ResponseFacts>,
  attempt: Partial<ChargedAttempt> = {},
  given: Given = {},
) =>
  await chargeFor(
    {
      outcome: Outcome.SUCCESS,
      status: 200,
      neverSent: false,
      sentAt: performance.now(),
      firstByteAt: 1,
      output: () => ({ text: 'text', ratio: 1 }),
      ...attempt,
      facts: { ...noFacts(), ...facts },
    },
    prepared(given),
    RESERVE,
    async (text) => text.length,
  );
const tokens = { ...NO_TOKENS, inputTokens: 5, outputTokens: 7 };

describe('input that can not be counted here', () => {
  const image = { type: 'image_url', image_url: { url: 'https://example.com/a.png' } };
  const byReference = { request: { messages: [{ role: 'user', content: [image] }] } };
  const search = { request: { web_search_options: {} } };
  const left = { outcome: Outcome.CLIENT_GONE };

  it('is charged as the context window, however the answer ends without usage', async () => {
    for (const given of [byReference, search]) {
      for (const attempt of [
        left,
        { ...left, firstByteAt: undefined },
        { outcome: Outcome.INTERRUPTED },
        { outcome: Outcome.SUCCESS },
      ]) {
        expect(await chargeOf({}, attempt, given)).toMatchObject({
          usage: { inputTokens: 8_000 },
          atLeastReserved: true,
        });
      }
    }
    expect(
      await chargeOf({}, { ...left, firstByteAt: undefined }, { ...byReference, isHard: true }),
    ).toMatchObject({ usage: { inputTokens: 8_000 } });
  });

  it('is what the vendor reported at the start of the stream', async () => {
    expect(await chargeOf({ partialUsage: tokens }, left, byReference)).toMatchObject({
      usage: { inputTokens: 5 },
      atLeastReserved: false,
    });
  });

  it('keeps a stream from being cancelled until it is known, unless an operator says so', () => {
    const isCancelled = (given: Given, isInputKnown: boolean) =>
      isStreamCancelledIfLeft(prepared(given), isInputKnown);
    expect(isCancelled({}, false)).toBe(true);
    expect([isCancelled(byReference, false), isCancelled(byReference, true)]).toEqual([false, true]);
    expect([isCancelled(search, false), isCancelled(search, true)]).toEqual([false, false]);
    const cancel = { onDisconnect: OnDisconnect.CANCEL };
    expect(isCancelled({ ...byReference, ...cancel }, false)).toBe(true);
    expect(isCancelled({ provider: 'groq' }, true)).toBe(false);
  });
});

describe('the usage that a vendor reports', () => {
  it('is charged as it is, also if it is less than what was seen', async () => {
    expect(await chargeOf({ usage: tokens })).toMatchObject({
      usage: tokens,
      estimated: false,
      atLeastReserved: false,
    });
  });

  it('counts of a stream that was left or cut, if it was the last word', async () => {
    for (const outcome of [Outcome.CLIENT_GONE, Outcome.INTERRUPTED]) {
      expect(await chargeOf({ usage: tokens, isFinal: true }, { outcome })).toMatchObject({
        usage: tokens,
        estimated: false,
      });
      expect(
        await chargeOf({ usage: tokens }, { outcome, output: () => ({ text: 'x'.repeat(20), ratio: 2 }) }),
      ).toMatchObject({
        usage: { inputTokens: 5, outputTokens: 40 },
        estimated: true,
      });
    }
  });

  it.each([undefined, NO_TOKENS])('is at least the reservation, if it is %j', async (usage) => {
    expect(await chargeOf({ usage, isFinal: true })).toMatchObject({
      usage: { outputTokens: 4 },
      estimated: true,
      atLeastReserved: true,
    });
  });

  it('may be zero for a response that failed', async () => {
    const failed = { usage: NO_TOKENS, isFinal: true, failed: true };
    expect(await chargeOf(failed, { outcome: Outcome.UPSTREAM_ERROR })).toMatchObject({
      estimated: false,
      usage: NO_TOKENS,
    });
  });

  it('is at the longer life where a part of the request asked for that, and the vendor does not say', async () => {
    const usage = { ...tokens, cacheWriteTokens: 11 };
    const long = { usage: { cacheWriteTokens: 0, cacheWrite1hTokens: 11 } };
    const breakpoint = { mode: 'explicit', ttl: '12h' };
    for (const request of [
      { prompt_cache_options: { mode: 'implicit', ttl: '12h' } },
      { input: [{ role: 'user', content: [{ type: 'input_text', prompt_cache_breakpoint: breakpoint }] }] },
    ]) {
      expect(await chargeOf({ usage }, {}, { operation: RESPONSES, request })).toMatchObject(long);
    }
    const usual = { prompt_cache_options: { mode: 'implicit', ttl: '30m' } };
    expect(await chargeOf({ usage }, {}, { operation: RESPONSES, request: usual })).toMatchObject({ usage });
  });

  it('is for an hour where the request asked for that, and the vendor does not say', async () => {
    const usage = { ...tokens, cacheWriteTokens: 11 };
    const ofHour = {
      operation: MESSAGES,
      request: { system: [{ cache_control: { type: 'ephemeral', ttl: '1h' } }] },
    };
    expect(await chargeOf({ usage }, {}, ofHour)).toMatchObject({
      usage: { cacheWriteTokens: 0, cacheWrite1hTokens: 11 },
    });
    expect(await chargeOf({ usage, hasCacheLives: true }, {}, ofHour)).toMatchObject({ usage });
    const other = { operation: MESSAGES, request: { system: 'ttl: 1h', cache_control: { ttl: '5m' } } };
    expect(await chargeOf({ usage }, {}, other)).toMatchObject({ usage });
  });
});

describe('a response that was not seen whole', () => {
  const left = { outcome: Outcome.CLIENT_GONE };
  it.each([
    ['text alone', {}, false],
    ['a model of which nothing is known', { capabilities: [] }, true],
    ['a hard budget', { isHard: true }, true],
    ['a model that reasons', { capabilities: ['reasoning'] }, true],
    [
      'a model that reasons, switched off',
      { capabilities: ['reasoning'], request: { reasoning_effort: 'none' } },
      false,
    ],
    ['thinking', { operation: MESSAGES, request: { thinking: { type: 'enabled' } } }, true],
    ['thinking, switched off', { operation: MESSAGES, request: { thinking: { type: 'disabled' } } }, false],
    ['reasoning', { operation: RESPONSES, request: { reasoning: { effort: 'high' } } }, true],
    ['an image', { request: { messages: [{ content: [{ type: 'image_url' }] }] } }, true],
    ['spoken output', { request: { modalities: ['text', 'audio'] } }, true],
    ["a vendor's tool", { operation: RESPONSES, request: { tools: [{ type: 'web_search' }] } }, true],
    ["a client's tool", { request: { tools: [{ type: 'function', function: { name: 'f' } }] } }, false],
  ] as [string, Given, boolean][])(
    'costs at least its reservation with %s: %s',
    async (_what, given, isFloored) => {
      expect(await chargeOf({}, left, given)).toMatchObject({ atLeastReserved: isFloored });
      expect(await chargeOf({}, { outcome: Outcome.INTERRUPTED }, given)).toMatchObject({
        atLeastReserved: isFloored,
      });
    },
  );

  it('costs at least its reservation where the vendor goes on without its client', async () => {
    const given = { provider: 'mistral' };
    expect(await chargeOf({}, left, given)).toMatchObject({ atLeastReserved: true });
    const cancels = { ...given, onDisconnect: OnDisconnect.CANCEL };
    expect(await chargeOf({}, left, cancels)).toMatchObject({ atLeastReserved: false });
    expect(await chargeOf({}, left, { onDisconnect: OnDisconnect.DRAIN })).toMatchObject({
      atLeastReserved: true,
    });
    expect(await chargeOf({}, { outcome: Outcome.INTERRUPTED }, given)).toMatchObject({
      atLeastReserved: false,
    });
  });

  it('costs at least its reservation as a document, of which nothing tells how much was billed', async () => {
    for (const outcome of [Outcome.CLIENT_GONE, Outcome.INTERRUPTED]) {
      expect(await chargeOf({}, { outcome, isDocument: true })).toMatchObject({ atLeastReserved: true });
      const whole = { usage: tokens, isFinal: true };
      expect(await chargeOf(whole, { outcome, isDocument: true }, { isHard: true })).toMatchObject({
        usage: tokens,
        atLeastReserved: false,
      });
    }
    const failed = { outcome: Outcome.UPSTREAM_ERROR, isDocument: true };
    expect(await chargeOf({ failed: true }, failed)).toMatchObject({ atLeastReserved: false });
  });

  it('costs what was seen, if its input is known and it writes text', async () => {
    const given = { request: { messages: [{ content: [{ type: 'image_url' }] }] } };
    expect(await chargeOf({ partialUsage: tokens }, left, given)).toMatchObject({ atLeastReserved: false });
    expect(await chargeOf({ partialUsage: tokens, toolUses: { web_search: 1 } }, left)).toMatchObject({
      atLeastReserved: true,
    });
    expect(await chargeOf({ unreadable: true }, left)).toMatchObject({ atLeastReserved: true });
  });

  it('costs its reservation if it did not begin, or runs in the background', async () => {
    const cut = { outcome: Outcome.INTERRUPTED, firstByteAt: undefined };
    expect(await chargeOf({}, cut)).toMatchObject(RESERVED);
    const background = { operation: RESPONSES, request: { background: true, max_output_tokens: 50 } };
    expect(await chargeOf({ pending: true }, {}, background)).toMatchObject(RESERVED);
    expect(await chargeOf({ pending: true }, left, background)).toMatchObject(RESERVED);
    expect(await chargeOf({ usage: tokens, isFinal: true }, {}, background)).toMatchObject({ usage: tokens });
  });

  it('costs no more output than its limit if it is a document that broke off, whose frame was read too', async () => {
    const read = { output: () => ({ text: 'w '.repeat(500), ratio: 1 }), isDocument: true };
    const request = { max_tokens: 20 };
    for (const outcome of [Outcome.INTERRUPTED, Outcome.CLIENT_GONE]) {
      const charge = await chargeOf({}, { ...read, outcome }, { request });
      expect(charge).toMatchObject({ usage: { outputTokens: 20 }, atLeastReserved: true });
    }
    // A whole one shows that the vendor did not keep to the limit.
    const whole = await chargeOf({}, read, { request });
    expect(whole).toMatchObject({
      usage: { outputTokens: expect.toSatisfy((count: number) => count >= 500) },
    });
  });

  it('is estimated by its size if it was not read, up to its limit', async () => {
    const unread = (bytes: number) => ({ output: () => ({ text: '', ratio: 1, unreadBytes: bytes }) });
    expect(await chargeOf({}, unread(350))).toMatchObject({ usage: { outputTokens: 100 } });
    expect(await chargeOf({}, unread(10 ** 9))).toMatchObject({ usage: { outputTokens: 500 } });
    const limited = { request: { max_tokens: 20, n: 3 } };
    expect(await chargeOf({}, unread(10 ** 9), limited)).toMatchObject({ usage: { outputTokens: 60 } });
  });
});

describe('a response that its client left before it began', () => {
  const left = { outcome: Outcome.CLIENT_GONE, firstByteAt: undefined, status: 0 };
  const anHourAgo = () => ({ ...left, sentAt: performance.now() - 3_600_000 });
  const stream = { stream: true };
  const text = (words: number) => [{ role: 'user', content: 'w '.repeat(words) }];

  it('costs what was reserved for it, at least', async () => {
    expect(await chargeOf({}, left, { request: stream })).toMatchObject({
      usage: { inputTokens: 900, outputTokens: 100 },
      estimated: true,
      atLeastReserved: true,
    });
    expect(await chargeOf({}, anHourAgo(), { request: stream })).toMatchObject({
      usage: { outputTokens: 100 },
    });
  });

  it('costs its input as it is counted, if that is more', async () => {
    const request = { ...stream, messages: text(2_000) };
    expect(await chargeOf({}, left, { request })).toMatchObject({
      usage: { inputTokens: expect.toSatisfy((count: number) => count >= 2_000), outputTokens: 100 },
    });
  });

  it('costs its input as written to the cache, where the request asks for that', async () => {
    const asking = (ttl?: string) => ({
      operation: MESSAGES,
      request: { ...stream, cache_control: { type: 'ephemeral', ttl } },
    });
    const none = { inputTokens: 0, outputTokens: 100 };
    expect(await chargeOf({}, left, asking())).toMatchObject({ usage: { ...none, cacheWriteTokens: 900 } });
    expect(await chargeOf({}, left, asking('1h'))).toMatchObject({
      usage: { ...none, cacheWriteTokens: 0, cacheWrite1hTokens: 900 },
    });
  });

  it('costs what may have been written unseen in the time, up to its limit', async () => {
    const reasoning = { capabilities: ['reasoning'], request: stream };
    expect(await chargeOf({}, left, reasoning)).toMatchObject({ usage: { outputTokens: 100 } });
    const aSecondAgo = { ...left, sentAt: performance.now() - 1_000 };
    const { usage } = (await chargeOf({}, aSecondAgo, reasoning)) as { usage: { outputTokens: number } };
    expect(usage.outputTokens).toBeGreaterThanOrEqual(200);
    expect(usage.outputTokens).toBeLessThan(500);
    expect(await chargeOf({}, anHourAgo(), reasoning)).toMatchObject({ usage: { outputTokens: 500 } });
    const several = { ...reasoning, request: { ...stream, n: 3, max_tokens: 150 } };
    expect(await chargeOf({}, anHourAgo(), several)).toMatchObject({ usage: { outputTokens: 450 } });
    // A document, whatever writes it.
    expect(await chargeOf({}, anHourAgo())).toMatchObject({ usage: { outputTokens: 500 } });
  });

  it('costs its reservation under a hard budget, which is the most that it can', async () => {
    const given = {
      capabilities: ['reasoning'],
      request: { ...stream, messages: text(2_000) },
      isHard: true,
    };
    expect(await chargeOf({}, anHourAgo(), given)).toMatchObject(RESERVED);
  });

  it('costs nothing if it was refused, or never sent', async () => {
    const nothing = { usage: NO_TOKENS, atLeastReserved: false };
    expect(await chargeOf({}, { ...left, neverSent: true })).toMatchObject(nothing);
    expect(await chargeOf({}, { ...left, status: 500 })).toMatchObject(nothing);
  });
});

it('counts each number of a large input of embeddings as a token', async () => {
  const operation = OPERATIONS.find(({ path }) => path === '/embeddings') as Operation;
  const request = { input: Array(600_000).fill(1), messages: undefined };
  const { usage } = (await chargeOf({}, {}, { operation, request })) as { usage: { inputTokens: number } };
  expect(usage.inputTokens).toBeGreaterThanOrEqual(600_000);
});
