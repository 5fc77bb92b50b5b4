import { dearestPrices } from '@weighbridge/domain';
import type { RoutableConnector, RoutableModel } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { CHAT_COMPLETIONS, MESSAGES, OPERATIONS, type Operation, RESPONSES } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { outputLimitOf } from './outputLimitOf.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import { estimateReservation } from './reservationEstimate.ts';

const rates = {
  input: 3_000_000_000n,
  output: 7_000_000_000n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
};
const price = { ...rates, tiers: [], version: 1, variants: [], toolPrices: {} };
const model = { id: 'p/m', price, dearest: dearestPrices([price]), capabilities: [], contextWindow: 0 };
const usual = () => 50_000;

function prepared(operation: Operation, fields: object, provider = 'mock'): PreparedRequest {
  const body = new RequestBody([Buffer.from(JSON.stringify({ model: 'p/m', ...fields }))]);
  const connector = { provider, negotiated: new Map(), upstreamNames: {} } as unknown as RoutableConnector;
  const generation = readGenerationRequest(operation, body);
  return {
    connector,
    body,
    modelRequest: { model: model as unknown as RoutableModel, connector, generation },
  } as PreparedRequest;
}

const limitOf = (request: PreparedRequest) =>
  outputLimitOf(usual, request, estimateReservation(usual, request));

describe('the output limit that a budget affords', () => {
  it.each([
    ['max_tokens', CHAT_COMPLETIONS, { max_tokens: 20_000 }],
    ['max_completion_tokens', CHAT_COMPLETIONS, { max_completion_tokens: 20_000, n: 3 }],
    ['max_output_tokens', RESPONSES, { max_output_tokens: 20_000 }],
    ['max_tokens', MESSAGES, { max_tokens: 20_000 }],
  ])('fits, and is nearly what fits: %s', (field, operation, fields) => {
    const request = prepared(operation, fields);
    const costWith = (limit: number) =>
      estimateReservation(usual, prepared(operation, { ...fields, [field]: limit })).costNanoUsd;
    for (const room of [1_500_000n, 2_234_567n, 40_000_000n]) {
      const output = limitOf(request);
      expect(output).toMatchObject({ field, isSet: true });
      const limit = output?.within(room) ?? 0;
      expect(costWith(limit)).toBeLessThanOrEqual(room);
      expect(costWith(Math.ceil(limit * 1.12) + 1)).toBeGreaterThan(room);
    }
  });

  it('fits what is left of a limit of tokens', () => {
    const fields = { max_tokens: 20_000, messages: [{ role: 'user', content: 'x'.repeat(700) }] };
    const tokensWith = (max_tokens: number) => {
      const request = prepared(CHAT_COMPLETIONS, { ...fields, max_tokens });
      const { inputTokens, outputTokens } = estimateReservation(usual, request);
      return inputTokens + outputTokens;
    };
    for (const room of [300, 1_000, 15_000]) {
      const limit = limitOf(prepared(CHAT_COMPLETIONS, fields))?.within(BigInt(room), 'tokens') ?? 0;
      expect(tokensWith(limit)).toBeLessThanOrEqual(room);
      expect(tokensWith(Math.ceil(limit * 1.12) + 1)).toBeGreaterThan(room);
    }
    expect(limitOf(prepared(CHAT_COMPLETIONS, fields))?.within(200n, 'tokens')).toBeUndefined();
  });

  it('is in the field that the vendor honours where the request has none, or in all that it has', () => {
    expect(limitOf(prepared(CHAT_COMPLETIONS, {}))).toMatchObject({ field: 'max_tokens', isSet: false });
    expect(limitOf(prepared(CHAT_COMPLETIONS, {}, 'openai'))?.field).toBe('max_completion_tokens');
    expect(limitOf(prepared(RESPONSES, {}, 'openai'))?.field).toBe('max_output_tokens');
    const both = prepared(CHAT_COMPLETIONS, { max_tokens: 9, max_completion_tokens: 90_000 });
    expect(limitOf(both)?.field).toBe('max_tokens and max_completion_tokens');
  });

  it("is in the caller's field where the request is translated", () => {
    const limit = { field: 'max_output_tokens', isSet: false };
    const request = prepared(MESSAGES, { max_tokens: 16_384 });
    const translated = { ...request, translation: { limit } } as PreparedRequest;
    expect(limitOf(translated)).toMatchObject(limit);
  });

  it('is none where even a useless output costs too much, or the output costs nothing', () => {
    const request = prepared(CHAT_COMPLETIONS, { max_tokens: 20_000 });
    expect(limitOf(request)?.within(0n)).toBeUndefined();
    const input = estimateReservation(usual, prepared(CHAT_COMPLETIONS, { max_tokens: 1 })).costNanoUsd;
    expect(limitOf(request)?.within(input + 80_000n)).toBeUndefined();
    expect(limitOf(request)?.within(input + 130_000n)).toBeGreaterThanOrEqual(16);
  });

  it('exists where the model writes', () => {
    const embeddings = OPERATIONS.filter(({ outputLimits }) => !outputLimits);
    expect(embeddings.length).toBeGreaterThan(0);
    for (const operation of embeddings) expect(limitOf(prepared(operation, {}))).toBeUndefined();
  });
});
