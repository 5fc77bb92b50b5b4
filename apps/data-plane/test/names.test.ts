import Anthropic from '@anthropic-ai/sdk';
import OpenAI from 'openai';
import { beforeEach, describe, expect, it } from 'vitest';
import { ALICE, type TestProxy, type TestProxyOptions } from './proxy.ts';
import { startProxyForTest, useVendor } from './useProxy.ts';

/** The names that requests give to models, other than their ids. */

const vendor = useVendor();
const nanoPerToken = 1n;
const messages = [{ role: 'user' as const, content: 'Hello' }];
const MODELS: NonNullable<TestProxyOptions['models']> = [
  { id: 'mock/gpt-9', nanoPerToken, own: true, otherNames: ['gpt-9-2026-01-01', 'gpt-9-latest', 'GPT.9'] },
  { id: 'mock/gpt-9-mini', nanoPerToken: 2n, own: true },
  { id: 'other/gpt-9', nanoPerToken },
  { id: 'other/only', nanoPerToken },
  { id: 'other/mock/inner', nanoPerToken },
  { id: 'gone/lost', nanoPerToken, own: true },
];
const CONNECTORS = [{}, { provider: 'other' }];

let proxy: TestProxy;
async function start(more: Partial<TestProxyOptions> = {}): Promise<void> {
  const common = { vendorUrl: vendor.url, models: MODELS, connectors: CONNECTORS };
  proxy = await startProxyForTest({ ...common, ...more });
}
beforeEach(() => start());

function openai(headers: Record<string, string> = {}): OpenAI {
  return new OpenAI({ baseURL: `${proxy.url}/v1`, apiKey: ALICE, maxRetries: 0, defaultHeaders: headers });
}

/** The model in the newest request of the vendor. */
function lastSent(): string {
  return JSON.parse(vendor.requests.at(-1)?.body.toString() ?? '{}').model;
}

/** The model that served a request for this name, and the name that the vendor got. */
async function asked(model: string, headers?: Record<string, string>) {
  const { response } = await openai(headers).chat.completions.create({ model, messages }).withResponse();
  return {
    served: response.headers.get('x-svc-model'),
    sent: lastSent(),
    cache: response.headers.get('x-svc-cache'),
  };
}

async function refused(model: string, more: object = {}): Promise<InstanceType<typeof OpenAI.APIError>> {
  const call = openai().chat.completions.create({ model, messages, ...more } as never);
  return await call.then(
    () => expect.unreachable(),
    (error) => error,
  );
}

describe('a bare name', () => {
  it.each([
    ['gpt-9', 'mock/gpt-9', 'gpt-9'],
    ['only', 'other/only', 'only'],
    ['mock/inner', 'other/mock/inner', 'mock/inner'],
    ['gpt/with/slashes', 'mock/gpt/with/slashes', 'gpt/with/slashes'],
    ['gpt-9-2026-01-01', 'mock/gpt-9', 'gpt-9-2026-01-01'],
    ['mock/gpt-9-latest', 'mock/gpt-9', 'gpt-9-latest'],
    ['GPT.9', 'mock/gpt-9', 'gpt-9'],
    ['us.mock.gpt-9-mini-v1:0', 'mock/gpt-9-mini', 'gpt-9-mini'],
    ['other/gpt-9', 'other/gpt-9', 'gpt-9'],
  ])('%s is served by %s, which gets %s', async (name, served, sent) => {
    expect(await asked(name)).toMatchObject({ served, sent });
    expect(proxy.events.at(-1)).toMatchObject({ model: served, modelRequested: name });
  });

  it('works in the SDKs, on every route', async () => {
    const { response } = await openai().responses.create({ model: 'gpt-9', input: 'Hello' }).withResponse();
    expect(response.headers.get('x-svc-model')).toBe('mock/gpt-9');
    const embedded = await openai().embeddings.create({ model: 'gpt-9', input: 'Hello' }).withResponse();
    expect(embedded.response.headers.get('x-svc-model')).toBe('mock/gpt-9');
    const anthropic = new Anthropic({ baseURL: proxy.url, apiKey: ALICE, maxRetries: 0 });
    const asked = { model: 'gpt-9-2026-01-01', max_tokens: 9, messages };
    const answer = await anthropic.messages.create(asked).withResponse();
    expect(answer.response.headers.get('x-svc-model')).toBe('mock/gpt-9');
    expect(lastSent()).toBe('gpt-9-2026-01-01');
    expect((await openai().models.retrieve('gpt-9-latest')).id).toBe('gpt-9-latest');
    await expect(openai().models.retrieve('gpt-8')).rejects.toThrow(OpenAI.NotFoundError);
  });

  it('goes to who can serve it, if its maker has no connector', async () => {
    await start({ connectors: [{ provider: 'other' }] });
    expect(await asked('gpt-9')).toMatchObject({ served: 'other/gpt-9' });
    await start({ connectors: [{ models: ['mock/echo'] }, { provider: 'other' }] });
    expect(await asked('gpt-9')).toMatchObject({ served: 'other/gpt-9' });
  });

  it('goes out as the account calls the model', async () => {
    await start({ connectors: [{ upstreamNames: { 'mock/gpt-9': 'my-deployment' } }] });
    for (const name of ['gpt-9', 'gpt-9-latest', 'mock/gpt-9'])
      expect(await asked(name)).toMatchObject({ served: 'mock/gpt-9', sent: 'my-deployment' });
  });

  it('shares the session pin of its model', async () => {
    const session = { 'x-svc-session-id': 'one' };
    await asked('mock/gpt-9', session);
    await asked('gpt-9', session);
    expect(proxy.pinResults).toEqual(['new', 'known']);
  });

  it('shares cached responses of its model; a dated name has its own', async () => {
    await start({ policyCache: { policyId: 'pol_1', scope: 'principal', ttlMs: 60_000 } });
    expect(await asked('mock/gpt-9')).toMatchObject({ cache: 'miss' });
    expect(await asked('gpt-9')).toMatchObject({ cache: 'hit', served: 'mock/gpt-9' });
    expect(await asked('gpt-9-2026-01-01')).toMatchObject({ cache: 'miss', sent: 'gpt-9-2026-01-01' });
    expect(await asked('mock/gpt-9-2026-01-01')).toMatchObject({ cache: 'hit' });
    expect(await asked('gpt-9-mini')).toMatchObject({ cache: 'miss' });
  });
});

describe('a policy', () => {
  it('forbids a model under every spelling', async () => {
    proxy.allows = (model) => model !== 'mock/gpt-9';
    for (const name of ['gpt-9', 'gpt-9-latest', 'mock/gpt-9-latest', 'us.mock.gpt-9-v1:0', 'models/gpt-9']) {
      expect([name, await refused(name)]).toMatchObject([name, { status: 403, code: 'model_not_allowed' }]);
      await expect(openai().models.retrieve(name)).rejects.toThrow(OpenAI.NotFoundError);
    }
    expect(vendor.requests).toEqual([]);
  });

  it('forbids other names of a model that a request names beside its own', async () => {
    await start({ restrictsModels: true });
    proxy.allows = (model) => model !== 'mock/gpt-9';
    for (const name of ['gpt-9', 'gpt-9-latest', 'mock/gpt-9-latest', 'us.mock.gpt-9-v1:0']) {
      const error = await refused('gpt-9-mini', { models: [name] });
      expect([name, error]).toMatchObject([name, { status: 403, code: 'model_not_allowed' }]);
    }
    expect(vendor.requests).toEqual([]);
  });
});

describe('an unknown name', () => {
  it.each([
    ['gpt-8', 'mock/gpt-9'],
    ['gtp-9-mini', 'mock/gpt-9-mini'],
    ['gpt-9-lates', 'mock/gpt-9-latest'],
    ['mock/gpt-9-mni', 'mock/gpt-9-mini'],
    ['GPT-9', 'mock/gpt-9'],
  ])('%s is a 404 that names %s', async (name, near) => {
    const error = await refused(name);
    expect(error).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
    expect(error.message).toContain(near);
    // Any key may ask that; the operator API's list needs another scope.
    expect(error.message).toContain(' GET /v1/models lists the models.');
    expect(error).toBeInstanceOf(OpenAI.NotFoundError);
  });

  it('names nothing that the key or the route can not reach', async () => {
    await start({ connectors: [{ routes: [1] }, { provider: 'other' }] });
    expect((await refused('gpt-9-mni')).message).toContain('mock/gpt-9-mini');
    const error = await openai()
      .embeddings.create({ model: 'gpt-9-mni', input: 'x' })
      .catch((reason) => reason);
    expect(error.status).toBe(404);
    expect(error.message).not.toContain('mock/');
    proxy.allows = (model) => model.startsWith('other/');
    expect((await refused('gpt-9-mni')).message).not.toContain('mock/');
    expect((await refused('lost')).message).not.toContain('gone/');
  });

  it('of the catalog, which nothing serves, says what is missing', async () => {
    const unservedModels = [
      { id: 'maker/gpt-7', otherNames: ['gpt-7-latest', 'mock-7'], own: true },
      { id: 'cloud/gpt-7', otherNames: [], own: false },
      { id: 'mock/gpt-9-max', otherNames: [], own: true },
    ];
    await start({ unservedModels });
    const said = (id: string) =>
      `The catalog has it as ${id}, and no enabled connector of the provider "${id.split('/')[0]}" serves it`;
    for (const name of ['gpt-7', 'gpt-7-latest', 'maker/gpt-7', 'maker/gpt-7-latest', 'models/gpt-7']) {
      const error = await refused(name);
      expect([name, error]).toMatchObject([name, { status: 404, code: 'model_not_found', param: 'model' }]);
      expect(error.message).toContain(said('maker/gpt-7'));
      expect(error.message).toContain(' GET /v1/models lists the models.');
    }
    expect((await refused('cloud/gpt-7')).message).toContain(said('cloud/gpt-7'));
    // The nearest names are those that the key can reach.
    const near = (await refused('gpt-9-max')).message;
    expect([near.includes(said('mock/gpt-9-max')), near.includes('Did you mean mock/gpt-9')]).toEqual([
      true,
      true,
    ]);
    expect((await refused('gpt-7-mini')).message).not.toContain('catalog');
    for (const name of ['constructor', '__proto__', 'maker/', 'router/gpt-7'])
      expect((await refused(name)).message).not.toContain('The catalog has it');
    // What is not served to anyone tells a key no more than it may use.
    proxy.allows = (model) => !model.startsWith('maker/');
    for (const name of ['gpt-7', 'gpt-7-latest', 'maker/gpt-7'])
      expect((await refused(name)).message).not.toContain('The catalog has it');
    expect(vendor.requests).toEqual([]);
  });

  it('of a fine-tuned model says what is missing', async () => {
    expect((await refused('ft:gpt-9:acme::abc')).message).toContain('A fine-tuned model has its own prices');
  });
});

describe('an alias', () => {
  const profile = { id: 'prf_1', name: 'cheap', targets: [{ model: 'mock/gpt-9-mini' }] };
  const alias = (name: string, target: string, policyId?: string) => {
    return { id: `als_${name}`, name, target, ...(policyId && { policyId }) };
  };
  const startWith = (...aliases: ReturnType<typeof alias>[]) => start({ aliases, profiles: [profile] });

  it('stands for a model or a profile, exactly or by a beginning', async () => {
    await startWith(
      alias('fast', 'mock/gpt-9-mini'),
      alias('claude-*', 'router/cheap'),
      alias('claude-opus*', 'mock/gpt-9'),
    );
    expect(await asked('fast')).toMatchObject({ served: 'mock/gpt-9-mini', sent: 'gpt-9-mini' });
    expect(await asked('claude-sonnet-4-5')).toMatchObject({ served: 'mock/gpt-9-mini', sent: 'gpt-9-mini' });
    expect(await asked('claude-opus-4-5-20251101')).toMatchObject({ served: 'mock/gpt-9', sent: 'gpt-9' });
    expect(proxy.events.at(-1)).toMatchObject({ modelRequested: 'claude-opus-4-5-20251101' });
  });

  it('goes before a name of the catalog, and after ids', async () => {
    await startWith(alias('gpt-9', 'other/only'), alias('*', 'mock/gpt-9-mini'));
    expect(await asked('gpt-9')).toMatchObject({ served: 'other/only', sent: 'only' });
    expect(await asked('mock/gpt-9')).toMatchObject({ served: 'mock/gpt-9' });
    expect(await asked('anything')).toMatchObject({ served: 'mock/gpt-9-mini' });
    expect(await refused('mock/anything')).toMatchObject({ status: 404, code: 'model_not_found' });
    expect(await refused('router/anything')).toMatchObject({ status: 404, code: 'model_not_found' });
  });

  it("of a policy is its keys' alone", async () => {
    await startWith(
      alias('gpt-9', 'other/only', 'pol_1'),
      alias('gpt-9-mini', 'other/only', 'pol_of_others'),
      alias('fast', 'mock/gpt-9', 'pol_of_others'),
    );
    expect(await asked('gpt-9')).toMatchObject({ served: 'other/only' });
    expect(await asked('gpt-9-mini')).toMatchObject({ served: 'mock/gpt-9-mini' });
    expect(await refused('fast')).toMatchObject({ status: 404 });
  });

  it('is no way around a policy, for the model of a request and for those that it names beside', async () => {
    await start({
      aliases: [alias('innocent', 'mock/gpt-9'), alias('cheap', 'router/cheap')],
      profiles: [profile],
      restrictsModels: true,
    });
    proxy.allows = (model) => model !== 'mock/gpt-9';
    const error = await refused('innocent');
    expect(error).toMatchObject({ status: 403, code: 'model_not_allowed' });
    expect(error.message).toContain('mock/gpt-9, for which innocent stands');
    expect(await refused('gpt-9-mini', { models: ['innocent'] })).toMatchObject({ status: 403 });
    proxy.allows = (model) => model !== 'mock/gpt-9-mini';
    expect(await refused('cheap')).toMatchObject({ status: 403, code: 'model_not_allowed' });
    expect(vendor.requests).toEqual([]);
  });

  it.each([
    ['lost', 'gone/lost-model', 'The alias lost stands for gone/lost-model'],
    ['lost-*', 'router/none', 'The alias lost-1 (lost-*) stands for router/none'],
  ])('%s to what can not be reached is a 404 that names both', async (name, target, message) => {
    await startWith(alias(name, target));
    const error = await refused(name.replace('*', '1'));
    expect(error).toMatchObject({ status: 404, code: 'model_not_found', param: 'model' });
    expect(error.message).toContain(message);
    await expect(openai().models.retrieve(name.replace('*', '1'))).rejects.toThrow(OpenAI.NotFoundError);
  });

  it('is listed and retrieved, if the key can reach its target, and suggested', async () => {
    await startWith(
      alias('fast', 'mock/gpt-9-mini'),
      alias('best', 'mock/gpt-9'),
      alias('claude-*', 'router/cheap'),
    );
    proxy.allows = (model) => model !== 'mock/gpt-9';
    const ids = (await openai().models.list()).data.map(({ id }) => id);
    expect(ids).toContain('fast');
    for (const id of ['best', 'claude-*']) expect(ids).not.toContain(id);
    expect(await openai().models.retrieve('fast')).toMatchObject({ id: 'fast', owned_by: 'mock' });
    expect(await openai().models.retrieve('claude-3')).toMatchObject({ id: 'claude-3', owned_by: 'router' });
    await expect(openai().models.retrieve('best')).rejects.toThrow(OpenAI.NotFoundError);
    expect((await refused('fats')).message).toContain('Did you mean fast?');
  });

  it('shares pins and cached responses with its target', async () => {
    const policyCache = { policyId: 'pol_1', scope: 'principal', ttlMs: 60_000 } as const;
    await start({
      aliases: [alias('fast', 'mock/gpt-9-mini'), alias('easy', 'router/cheap')],
      profiles: [profile],
      policyCache,
    });
    expect(await asked('mock/gpt-9-mini')).toMatchObject({ cache: 'miss' });
    expect(await asked('fast')).toMatchObject({ cache: 'hit' });
    expect(await asked('router/cheap')).toMatchObject({ cache: 'miss' });
    expect(await asked('easy')).toMatchObject({ cache: 'hit', served: 'mock/gpt-9-mini' });
    const session = { 'x-svc-session-id': 'one', 'cache-control': 'no-store' };
    for (const name of ['router/cheap', 'easy', 'mock/gpt-9-mini', 'fast']) await asked(name, session);
    expect(proxy.pinResults).toEqual(['new', 'known', 'new', 'known']);
  });
});
