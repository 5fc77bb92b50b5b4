import type { Headroom } from '@weighbridge/budget';
import { dearestPrices, type PriceVariant } from '@weighbridge/domain';
import type { RoutableConnector, RoutableModel } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { readGenerationRequest, upstreamBody } from '../formats/generationRequest.ts';
import { hardTerms } from '../formats/hardMode.ts';
import { CHAT_COMPLETIONS, MESSAGES, type Operation, RESPONSES } from '../formats/operation.ts';
import { RequestBody } from '../formats/requestBody.ts';
import { limitOutput } from './limitOutput.ts';
import { estimateReservation } from './reservationEstimate.ts';

const rates = {
  input: 1_000_000n,
  output: 2_000_000n,
  cacheRead: 0n,
  cacheWrite: 0n,
  cacheWrite1h: 0n,
  tiers: [],
};
const priority: PriceVariant = {
  ...rates,
  input: 5_000_000n,
  output: 10_000_000n,
  service: { serviceTier: 'priority', speed: '', geography: '' },
};
const fast: PriceVariant = {
  ...rates,
  input: 6_000_000n,
  output: 12_000_000n,
  service: { serviceTier: '', speed: 'fast', geography: '' },
};
const price = { ...rates, version: 1, variants: [priority], toolPrices: { web_search: 10_000_000n } };

function targetOf(provider: string, more: Partial<RoutableModel> = {}) {
  const model = {
    id: `${provider}/m`,
    price,
    dearest: dearestPrices([price]),
    free: false,
    maxOutputTokens: 500,
    capabilities: [],
    contextWindow: 10_000,
    ...more,
  } as RoutableModel;
  const connector = { provider, negotiated: new Map(), upstreamNames: {} } as unknown as RoutableConnector;
  return { model, connector };
}

/** What goes out under a hard budget, and what it reserves. */
async function sent(
  operation: Operation,
  text: string,
  target = targetOf('mock'),
  headroom: Headroom = { nanoUsd: undefined, tokens: undefined },
) {
  const body = new RequestBody([Buffer.from(text)]);
  const generation = readGenerationRequest(operation, body);
  const terms = hardTerms(operation, body.toBuffer(), new Set());
  const budget = { headroom: async () => headroom };
  const limited = await limitOutput(budget, [], generation, terms, target);
  const out = upstreamBody(limited, 'm', true);
  const modelRequest = { ...target, generation: limited };
  const prepared = { connector: target.connector, body: out, modelRequest };
  const estimate = estimateReservation(() => undefined, prepared);
  return { body: JSON.parse(out.toBuffer().toString()), estimate, text: out.toBuffer().toString() };
}

describe('the output limit', () => {
  it('goes out in the one field that the vendor honours, with the smaller of two values', async () => {
    const both = '{ "max_completion_tokens":1, "model":"x","max_tokens":400}';
    for (const [provider, field] of [
      ['openai', 'max_completion_tokens'],
      ['azure', 'max_completion_tokens'],
      ['groq', 'max_completion_tokens'],
      ['xai', 'max_completion_tokens'],
      ['mistral', 'max_tokens'],
      ['deepseek', 'max_tokens'],
      ['gemini', 'max_tokens'],
      ['own', 'max_tokens'],
    ] as const) {
      const limits = ({ model, ...rest }: Record<string, unknown>) => rest;
      const target = targetOf(provider);
      expect(limits((await sent(CHAT_COMPLETIONS, both, target)).body)).toEqual({ [field]: 1 });
      for (const one of ['{"model":"x","max_tokens":7}', '{"max_completion_tokens":7,"model":"x"}']) {
        expect(limits((await sent(CHAT_COMPLETIONS, one, target)).body)).toEqual({ [field]: 7 });
      }
      const none = '{"model":"x","max_tokens":null,"max_completion_tokens":null}';
      expect(limits((await sent(CHAT_COMPLETIONS, none, target)).body)).toEqual({ [field]: 500 });
      expect(limits((await sent(CHAT_COMPLETIONS, '{"model":"x"}', target)).body)).toEqual({ [field]: 500 });
    }
  });

  it('is what the reservation covers, for each choice', async () => {
    const text =
      '{"model":"x","max_tokens":50,"max_completion_tokens":400,"n":2,"best_of":3,"service_tier":"default"}';
    expect((await sent(CHAT_COMPLETIONS, text)).estimate.outputTokens).toBe(150);
    expect((await sent(RESPONSES, '{"model":"x","max_output_tokens":9}')).estimate.outputTokens).toBe(9);
  });

  it('is what limits of tokens leave as well, for each choice', async () => {
    const withTokens = async (text: string, tokens: bigint) => {
      const headroom = { nanoUsd: undefined, tokens };
      const { body, estimate } = await sent(CHAT_COMPLETIONS, text, targetOf('openai'), headroom);
      return { limit: body.max_completion_tokens, tokens: estimate.inputTokens + estimate.outputTokens };
    };
    for (const text of ['{"model":"x"}', '{"model":"x","n":2}']) {
      const { limit, tokens } = await withTokens(text, 700n);
      expect(limit).toBeGreaterThanOrEqual(16);
      expect(limit).toBeLessThan(500);
      expect(tokens).toBeLessThanOrEqual(700);
    }
    // The request's own limit stays: the reservation is refused if it is too much.
    expect((await withTokens('{"model":"x","max_tokens":400}', 10n)).limit).toBe(400);
    expect((await withTokens('{"model":"x"}', 1_000_000n)).limit).toBe(500);
  });

  it('leaves all else as the client sent it', async () => {
    const text = '{ "model":"m", "max_tokens" : 7,"messages":[ ] ,"seed":1.0e2 }';
    expect((await sent(CHAT_COMPLETIONS, text)).text).toBe(text);
  });
});

describe('tools', () => {
  it('that nothing bounds do not go out, nor what only makes sense with them', async () => {
    const text =
      '{"tools":[{"type":"web_search"}, {"type":"function","name":"f"} ,{"type":"mcp"}],"model":"m","tool_choice":"auto"}';
    expect((await sent(RESPONSES, text)).body).toEqual({
      model: 'm',
      tools: [{ type: 'function', name: 'f' }],
      tool_choice: 'auto',
      max_output_tokens: 500,
    });
    const only =
      '{"tools":[{"type":"mcp"},{"type":"mcp"}],"parallel_tool_calls":true,"model":"m","tool_choice":"auto"}';
    expect((await sent(RESPONSES, only)).body).toEqual({ model: 'm', max_output_tokens: 500 });
  });

  it('that are bounded reserve their uses and the context window, each time', async () => {
    const tool = (uses: number) => `{"type":"web_search_20250305","name":"web_search","max_uses":${uses}}`;
    const cost = async (uses: number) =>
      (
        await sent(
          MESSAGES,
          `{"model":"m","max_tokens":5,"service_tier":"standard_only","tools":[${tool(uses)}]}`,
        )
      ).estimate.costNanoUsd;
    expect((await cost(3)) - (await cost(1))).toBe(2n * (10_000_000n + 10_000n));
  });

  it('are refused if the context window of the model is not known', async () => {
    const text = '{"model":"m","max_output_tokens":5,"tools":[{"type":"web_search"}],"max_tool_calls":1}';
    await expect(sent(RESPONSES, text, targetOf('mock', { contextWindow: 0 }))).rejects.toMatchObject({
      code: 'not_allowed_in_hard_mode',
      param: 'tools',
    });
  });
});

describe('the reservation', () => {
  const reserved = async (provider: string, service: string, operation = CHAT_COMPLETIONS, more = {}) => {
    const text = `{"model":"m","max_tokens":1000000${service}}`;
    const { estimate } = await sent(operation, text, targetOf(provider, more));
    return estimate.costNanoUsd / 1_000_000n;
  };

  it('is at the dearest tier that the request allows', async () => {
    // The project of an account may have another default than the standard.
    expect(await reserved('openai', '')).toBe(10n);
    expect(await reserved('openai', ',"service_tier":"auto"')).toBe(10n);
    expect(await reserved('openai', ',"service_tier":"default"')).toBe(2n);
    expect(await reserved('openai', ',"service_tier":"flex"')).toBe(2n);
    expect(await reserved('openai', ',"service_tier":"fast"')).toBe(10n);
    expect(await reserved('anthropic', ',"service_tier":"standard_only"', MESSAGES)).toBe(2n);
    expect(await reserved('anthropic', '', MESSAGES)).toBe(10n);
    expect(await reserved('mistral', '')).toBe(2n);
    // A tier without a price: the dearest known multiple of the list price.
    expect(await reserved('openai', ',"service_tier":"ultrafast"')).toBe(10n);
  });

  it('is at the speed and the geography that the request asks for', async () => {
    const variants = [
      fast,
      { ...fast, output: 3_000_000n, service: { serviceTier: '', speed: '', geography: 'us' } },
    ];
    const more = { price: { ...price, variants } };
    expect(await reserved('anthropic', ',"speed":"fast","inference_geo":"global"', MESSAGES, more)).toBe(12n);
    expect(await reserved('anthropic', ',"inference_geo":"us"', MESSAGES, more)).toBe(3n);
    // Without one, the default of the workspace counts.
    expect(await reserved('anthropic', '', MESSAGES, more)).toBe(3n);
    expect(await reserved('anthropic', ',"inference_geo":"global"', MESSAGES, more)).toBe(2n);
  });

  it('is at the price of images if the model writes some', async () => {
    const capabilities = ['image_output'];
    const images = { ...price, variants: [], outputImage: 30_000_000n };
    expect(await reserved('gemini', '', CHAT_COMPLETIONS, { price: images, capabilities })).toBe(30n);
    expect(await reserved('gemini', '', CHAT_COMPLETIONS, { price: images })).toBe(2n);
    // Without a price, at the dearest that is known.
    expect(await reserved('gemini', '', CHAT_COMPLETIONS, { capabilities })).toBe(120_000n);
  });
});
