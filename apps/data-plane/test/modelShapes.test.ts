import Anthropic from '@anthropic-ai/sdk';
import { Mistral } from '@mistralai/mistralai';
import { describe, expect, it } from 'vitest';
import { ALICE } from './proxy.ts';
import { useProxy, useVendor } from './useProxy.ts';

const vendor = useVendor();
const proxy = useProxy(vendor, {
  models: [
    { id: 'mock/seeing', nanoPerToken: 1n, capabilities: ['tools', 'image_input'], contextWindow: 9_000 },
    { id: 'mock/embedding', nanoPerToken: 1n, capabilities: ['embeddings'] },
  ],
});

const get = async (path: string, headers: Record<string, string> = {}) => {
  const answer = await fetch(`${proxy.url}${path}`, {
    headers: { authorization: `Bearer ${ALICE}`, ...headers },
  });
  return (await answer.json()) as Record<string, unknown> & { data: { id: string }[] };
};

describe('the list of models', () => {
  it("has what Mistral's SDK needs", async () => {
    const mistral = new Mistral({ serverURL: proxy.url, apiKey: ALICE });
    const { data = [] } = await mistral.models.list();
    const byId = new Map(
      data.flatMap((model) => (model.type === 'base' ? [[model.id, model] as const] : [])),
    );
    expect(byId.get('mock/seeing')).toMatchObject({
      maxContextLength: 9_000,
      capabilities: { completionChat: true, functionCalling: true, vision: true, reasoning: false },
    });
    expect(byId.get('mock/embedding')?.capabilities).toMatchObject({ completionChat: false, vision: false });
    expect(await mistral.models.retrieve({ modelId: 'mock/seeing' })).toMatchObject({ id: 'mock/seeing' });
  });

  it('has what Codex reads, and keeps the descriptions that Codex ships', async () => {
    const { data, models } = await get('/v1/models?client_version=0.130.0');
    expect(models).toEqual([]);
    expect(data.map(({ id }) => id)).toContain('mock/echo');
    expect(await get('/v1/models')).not.toHaveProperty('models');
  });

  it("has Anthropic's shape for its clients, in pages of up to a thousand", async () => {
    const anthropic = new Anthropic({ baseURL: proxy.url, apiKey: ALICE });
    const page = await anthropic.models.list({ limit: 1_000 });
    expect(page.data.find(({ id }) => id === 'mock/seeing')).toMatchObject({
      type: 'model',
      display_name: 'mock/seeing',
      created_at: '1970-01-01T00:00:00.000Z',
      max_input_tokens: 9_000,
      max_tokens: null,
      lifecycle: 'active',
    });
    const plain = await get('/v1/models?limit=1000', { 'anthropic-version': '2023-06-01' });
    expect(plain).toMatchObject({
      has_more: false,
      first_id: plain.data[0]?.id,
      last_id: plain.data.at(-1)?.id,
    });
    const [first, second] = plain.data;
    expect(await get('/v1/models?limit=1', { 'anthropic-version': '2023-06-01' })).toMatchObject({
      has_more: true,
      first_id: first?.id,
      last_id: first?.id,
    });
    expect(await get(`/v1/models?limit=1&after_id=${first?.id}`, { 'anthropic-version': 'x' })).toMatchObject(
      {
        first_id: second?.id,
      },
    );
  });

  it('has each model by its name, with slashes escaped or not', async () => {
    for (const path of ['mock/seeing', 'mock%2Fseeing', 'mock/gpt/with/slashes']) {
      expect(await get(`/v1/models/${path}`)).toMatchObject({ id: decodeURIComponent(path), type: 'base' });
    }
  });
});
