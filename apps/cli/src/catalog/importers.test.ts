import { describe, expect, it } from 'vitest';
import { readLiteLlm, readModelsDev } from './readLists.ts';

const usd = (units: number, nanos = 0) => ({ currency_code: 'USD', units, nanos });

const chat = {
  mode: 'chat',
  max_input_tokens: 1_000,
  input_cost_per_token: 1e-6,
  output_cost_per_token: 2e-6,
};

describe("LiteLLM's list", () => {
  it('yields prices per million tokens, tiers, sizes and capabilities', () => {
    const { models } = readLiteLlm({
      sample_spec: { mode: 'one of …' },
      'acme-large': {
        ...chat,
        litellm_provider: 'acme_ai',
        max_output_tokens: 500,
        cache_read_input_token_cost: 1e-7,
        cache_creation_input_token_cost: 1.25e-6,
        cache_creation_input_token_cost_above_1hr: 2e-6,
        input_cost_per_token_above_200k_tokens: 2e-6,
        output_cost_per_token_above_200k_tokens: 3e-6,
        supports_function_calling: true,
        supports_vision: false,
        supports_reasoning: true,
        deprecation_date: '2027-05-01',
      },
    });
    const caches = {
      cache_read_price: usd(0, 100_000_000),
      cache_write_price: usd(1, 250_000_000),
      cache_write_1h_price: usd(2),
    };
    expect(models).toEqual([
      {
        model: 'acme-ai/acme-large',
        context_window: 1_000,
        max_output_tokens: 500,
        capabilities: ['tools', 'reasoning'],
        deprecated_at: '2027-05-01T00:00:00.000Z',
        price: {
          input_price: usd(1),
          output_price: usd(2),
          ...caches,
          tiers: [{ above_input_tokens: 200_000, input_price: usd(2), output_price: usd(3), ...caches }],
        },
      },
    ]);
  });

  it('yields prices by modality, service tier, speed, geography and tool', () => {
    const { models } = readLiteLlm({
      'gpt-x': {
        ...chat,
        litellm_provider: 'openai',
        cache_read_input_token_cost: 1e-7,
        input_cost_per_audio_token: 4e-5,
        output_cost_per_audio_token: 8e-5,
        input_cost_per_token_above_272k_tokens: 2e-6,
        output_cost_per_token_above_272k_tokens: 3e-6,
        input_cost_per_token_priority: 2.5e-6,
        output_cost_per_token_priority: 5e-6,
        input_cost_per_token_flex: 5e-7,
        output_cost_per_token_flex: 1e-6,
        input_cost_per_token_above_272k_tokens_flex: 1e-6,
        output_cost_per_token_above_272k_tokens_flex: 1.5e-6,
        input_cost_per_token_batches: 4e-7,
        output_cost_per_token_batches: 4e-7,
        search_context_cost_per_query: { search_context_size_low: 0.03, search_context_size_high: 0.05 },
        file_search_cost_per_1k_calls: 2.5,
      },
      'claude-x': {
        ...chat,
        litellm_provider: 'anthropic',
        provider_specific_entry: { us: 1.1, fast: 6 },
      },
    });
    const audio = { input_audio_price: usd(40), output_audio_price: usd(80) };
    const cached = { cache_read_price: usd(0, 100_000_000) };
    const [claude, gpt] = models;
    expect(gpt?.price).toMatchObject(audio);
    const priority = {
      input_price: usd(2, 500_000_000),
      output_price: usd(5),
      ...cached,
      ...audio,
      // The list says nothing of long inputs with priority: the dearer of both.
      tiers: [
        {
          above_input_tokens: 272_000,
          input_price: usd(2, 500_000_000),
          output_price: usd(5),
          ...cached,
          ...audio,
        },
      ],
    };
    expect(gpt?.price.variants).toEqual([
      { service_tier: 'priority', ...priority },
      { service_tier: 'fast', ...priority },
      {
        service_tier: 'flex',
        input_price: usd(0, 500_000_000),
        output_price: usd(1),
        ...cached,
        ...audio,
        tiers: [
          {
            above_input_tokens: 272_000,
            input_price: usd(1),
            output_price: usd(1, 500_000_000),
            ...cached,
            ...audio,
          },
        ],
      },
    ]);
    expect(gpt?.price.tool_prices).toEqual({
      web_search: usd(0, 50_000_000),
      file_search: usd(0, 2_500_000),
    });
    expect(claude?.price.variants).toEqual([
      { speed: 'fast', input_price: usd(6), output_price: usd(12) },
      { geography: 'us', input_price: usd(1, 100_000_000), output_price: usd(2, 200_000_000) },
      {
        speed: 'fast',
        geography: 'us',
        input_price: usd(6, 600_000_000),
        output_price: usd(13, 200_000_000),
      },
    ]);
  });

  it('converts the names of models', () => {
    const { models } = readLiteLlm({
      'together_ai/meta/llama': { ...chat, litellm_provider: 'together_ai' },
      'gpt-x': { ...chat, litellm_provider: 'openai' },
      'gemini/flash': { ...chat, litellm_provider: 'gemini' },
      'embed-x': {
        mode: 'embedding',
        litellm_provider: 'openai',
        max_tokens: 10,
        input_cost_per_token: 1e-7,
      },
    });
    expect(models.map(({ model }) => model)).toEqual([
      'gemini/flash',
      'openai/embed-x',
      'openai/gpt-x',
      'together/meta/llama',
    ]);
    expect(models[1]).toMatchObject({ capabilities: ['embeddings'], price: { output_price: usd(0) } });
  });

  it('skips models without a usable price, and reports the reasons', () => {
    const { models, skipped } = readLiteLlm({
      picture: { litellm_provider: 'openai', mode: 'image_generation' },
      unpriced: { litellm_provider: 'openai', mode: 'chat', max_input_tokens: 5 },
      free: { ...chat, litellm_provider: 'openai', input_cost_per_token: 0, output_cost_per_token: 0 },
      thinker: { ...chat, litellm_provider: 'openai', output_cost_per_reasoning_token: 9e-6 },
      endless: { ...chat, litellm_provider: 'openai', max_input_tokens: 'many' },
      'openai/twice': { ...chat, litellm_provider: 'openai' },
      twice: { ...chat, litellm_provider: 'openai' },
      strange: { ...chat, litellm_provider: 'Ünknown' },
    });
    expect(models.map(({ model }) => model)).toEqual(['openai/twice']);
    expect(skipped).toEqual({
      'not priced by tokens': ['picture'],
      'no price': ['unpriced'],
      'a price of zero, which may mean unknown': ['free'],
      'reasoning has a separate price': ['thinker'],
      'no context window': ['endless'],
      'listed more than once': ['twice'],
      'no provider': ['strange'],
    });
  });

  it('is refused if the file is something else', () => {
    expect(() => readLiteLlm([])).toThrow("not LiteLLM's list");
  });
});

describe("models.dev's list", () => {
  it('yields prices, the tier, sizes and capabilities', () => {
    const { models, skipped } = readModelsDev({
      google: {
        id: 'google',
        models: {
          'flash-9': {
            id: 'flash-9',
            tool_call: true,
            reasoning: true,
            reasoning_options: [
              { type: 'effort', values: ['low', 'high', 'unheard'] },
              { type: 'budget_tokens', min: 128, max: 32_768, default: -1 },
              { type: 'budget_tokens', max: 5 },
              { type: 'toggle' },
            ],
            temperature: true,
            structured_output: false,
            modalities: { input: ['text', 'image', 'pdf'], output: ['text'] },
            cost: {
              input: 0.3,
              output: 2.5,
              cache_read: 0.075,
              input_audio: 1,
              context_over_200k: { input: 0.6, output: 5 },
            },
            limit: { context: 1_048_576, output: 65_536 },
          },
          'open-weights': { limit: { context: 10, output: 10 } },
        },
      },
    });
    expect(models).toEqual([
      {
        model: 'gemini/flash-9',
        context_window: 1_048_576,
        max_output_tokens: 65_536,
        capabilities: [
          'tools',
          'reasoning',
          'image_input',
          'pdf_input',
          'effort_low',
          'effort_high',
          'reasoning_budget_128_32768',
          'reasoning_off',
          'sampling',
          'no_structured_output',
        ],
        price: {
          input_price: usd(0, 300_000_000),
          output_price: usd(2, 500_000_000),
          cache_read_price: usd(0, 75_000_000),
          input_audio_price: usd(1),
          tiers: [
            {
              above_input_tokens: 200_000,
              input_price: usd(0, 600_000_000),
              output_price: usd(5),
              cache_read_price: usd(0, 75_000_000),
              input_audio_price: usd(1),
            },
          ],
        },
      },
    ]);
    expect(skipped).toEqual({ 'no price': ['gemini/open-weights'] });
  });

  it('yields every price by length, each with what it omits', () => {
    const tier = (size: number, input: number) => ({ input, output: 5, tier: { type: 'context', size } });
    const cost = { input: 0.1 + 0.2, output: 2, cache_read: 0.1, tiers: [tier(64_000, 3), tier(32_000, 1)] };
    const { models } = readModelsDev({ acme: { models: { large: { cost, limit: { context: 128_000 } } } } });
    const cached = { cache_read_price: usd(0, 100_000_000) };
    expect(models[0]?.price).toEqual({
      input_price: usd(0, 300_000_000),
      output_price: usd(2),
      ...cached,
      tiers: [
        { above_input_tokens: 32_000, input_price: usd(1), output_price: usd(5), ...cached },
        { above_input_tokens: 64_000, input_price: usd(3), output_price: usd(5), ...cached },
      ],
    });
  });

  it('is refused if the file is something else', () => {
    for (const content of [{}, [], null, { a: 1 }, { 'gpt-x': { mode: 'chat' } }]) {
      expect(() => readModelsDev(content)).toThrow("not models.dev's list");
    }
  });
});
