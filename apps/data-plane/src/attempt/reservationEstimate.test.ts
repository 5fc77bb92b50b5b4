import { dearestPrices } from '@weighbridge/domain';
import type { RoutableConnector, RoutableModel } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { readGeminiRequest } from '../formats/geminiRequest.ts';
import { readGenerationRequest } from '../formats/generationRequest.ts';
import { CHAT_COMPLETIONS, GENERATE_CONTENT, type Operation } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import { estimateReservation } from './reservationEstimate.ts';

const rates = {
  input: 0n,
  output: 4_000_000_000n,
  outputAudio: 16_000_000_000n,
  outputImage: 12_000_000_000n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
};
const price = { ...rates, tiers: [], version: 1, variants: [], toolPrices: {} };
const model = { id: 'p/m', price, dearest: dearestPrices([price]), capabilities: [], contextWindow: 0 };

/** What a request reserves for its output, in nano-USD, for a model whose responses usually have `tokens` tokens. */
function reserved(operation: Operation, fields: object, usualTokens: number): bigint {
  const body = new RequestBody([Buffer.from(JSON.stringify({ model: 'p/m', ...fields }))]);
  const connector = { provider: 'mock', negotiated: new Map(), upstreamNames: {} };
  const modelRequest = {
    model: model as unknown as RoutableModel,
    connector: connector as unknown as RoutableConnector,
    generation:
      operation === GENERATE_CONTENT
        ? readGeminiRequest({ operation, model: 'p/m', stream: false, isArray: false }, body)
        : readGenerationRequest(operation, body),
  };
  const request = { connector: modelRequest.connector, body, modelRequest } as PreparedRequest;
  return estimateReservation(() => usualTokens, request).costNanoUsd;
}

describe('the output of a balanced reservation', () => {
  it.each([
    ['text by default', CHAT_COMPLETIONS, { max_tokens: 2_000 }, 4_000n],
    ['other modalities', CHAT_COMPLETIONS, { modalities: ['text', 'audio'] }, 16_000n],
    ["text, in Gemini's settings", GENERATE_CONTENT, { generationConfig: { topK: 1 } }, 4_000n],
    [
      "other modalities, in Gemini's settings",
      GENERATE_CONTENT,
      { generationConfig: { responseModalities: ['IMAGE'] } },
      16_000n,
    ],
  ])('is priced for what the request asks for: %s', (_what, operation, fields, nanoUsd) => {
    expect(reserved(operation, fields, 1_500)).toBe(1_500n * nanoUsd);
  });

  it('of media is no shorter than of a model without responses yet, whatever its texts have', () => {
    const media = { modalities: ['text', 'audio'] };
    expect(reserved(CHAT_COMPLETIONS, {}, 20)).toBe(20n * 4_000n);
    expect(reserved(CHAT_COMPLETIONS, media, 20)).toBe(1_024n * 16_000n);
    expect(reserved(CHAT_COMPLETIONS, { ...media, max_tokens: 100 }, 20)).toBe(100n * 16_000n);
  });
});
