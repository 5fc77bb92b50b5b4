import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Json, outcome, startTestApi, type TestApi } from '../../../test/testApi.ts';
import { readCatalogFiles } from './catalogFile.ts';
import { importCatalog } from './catalogImport.service.ts';
import { shippedCatalog } from './shippedCatalog.ts';

const SHIPPED = shippedCatalog(await readCatalogFiles(), new Date('2026-11-20T10:00:00Z'));

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({ OPENAI_API_KEY: 'sk-vendor' });
  await api.call('POST', '/connectors', {
    body: { name: 'acme', provider: 'acme', dialect: 'openai', base_url: 'https://vendor.test/v1' },
  });
});
afterAll(() => api.close());

const usd = (units: number) => ({ currency_code: 'USD', units, nanos: 0 });
const at = (model: string) => `/catalog/models/${encodeURIComponent(model)}`;
const put = (model: string, fields: Json = {}) => {
  const price = { input_price: usd(1), output_price: usd(1) };
  return api.call('PUT', at(model), { body: { context_window: 1_000, price, ...fields } });
};
const patch = (model: string, body: Json) => api.call('PATCH', at(model), { body });
const explained = async (model: string) => {
  const { body } = await api.call('POST', '/explain', { body: { model } });
  return [body.model, (body.resolved_name as Json | undefined)?.by];
};
let count = 0;
const unused = () => `acme/model-${++count}`;
/** Imports a release in which one model has other names. */
const release = (id: string, otherNames: readonly string[]) =>
  api.db.transaction().execute((tx) =>
    importCatalog(
      tx,
      SHIPPED.map((model) => (model.id === id ? { ...model, otherNames } : model)),
      api.now,
    ),
  );

describe("other names of an operator's model", () => {
  it('are set, shown, routed, changed and reset', async () => {
    const model = unused();
    const created = await put(model, { other_names: ['big', 'big-2026-11-01', 'big'], own: true });
    expect([created.status, created.body.other_names, created.body.own]).toEqual([
      201,
      ['big', 'big-2026-11-01'],
      true,
    ]);
    expect(await explained('big')).toEqual([model, 'other_name']);
    expect(await explained('acme/big-2026-11-01')).toEqual([model, 'other_name']);
    const routed = (await api.snapshot()).models.find(({ id }) => id === model);
    expect([routed?.otherNames, routed?.own]).toEqual([['big', 'big-2026-11-01'], true]);
    expect((await patch(model, { other_names: ['bigger'] })).body.other_names).toEqual(['bigger']);
    expect(await explained('bigger')).toEqual([model, 'other_name']);
    expect((await put(model)).body).toMatchObject({ other_names: [], own: false });
    expect((await explained('bigger'))[0]).toBeUndefined();
  });

  it.each([
    [['router/cheap']],
    [['acme/other']],
    [['openai/gpt-4o']],
    [['mock/other']],
    [['two words']],
    [['a\u202eb']],
    [['a\nb']],
    [['*']],
    [['/a']],
    [['a/']],
    [['ünicode']],
  ])('%j are a 422 that names the field', async (other_names) => {
    const response = await put(unused(), { other_names });
    expect([response.status, response.body.error]).toMatchObject([
      422,
      { code: 'other_names_invalid', param: 'other_names.0' },
    ]);
  });

  it.each([
    [Array.from({ length: 101 }, (_, at) => `name-${at}`)],
    [['']],
    [['x'.repeat(201)]],
    [['a\u0000b']],
    ['not a list'],
    [[7]],
    [null],
  ])('%j are a 400', async (other_names) => {
    expect(await outcome(put(unused(), { other_names }))).toEqual([400, 'invalid_request']);
  });

  it('are at most 100, whatever a request tries', async () => {
    const names = (length: number) => Array.from({ length }, (_, at) => `${at}`);
    expect(await outcome(put(unused(), { other_names: names(1_000) }))).toEqual([400, 'invalid_request']);
    expect(await outcome(put(unused(), { other_names: names(10_000) }))).toEqual([413, 'body_too_large']);
    expect((await put(unused(), { other_names: names(100).map((name) => `x${name}`) })).status).toBe(201);
  });

  it('are not its own bare name', async () => {
    expect(await outcome(put('acme/twice', { other_names: ['twice'] }))).toEqual([
      422,
      'other_names_invalid',
    ]);
  });
});

describe('a name of a model takes no requests from another model', () => {
  it.each([
    ['its bare name', 'gpt-4o'],
    ['its bare name where no connector serves it', 'deepseek-chat'],
    ['another name of it', 'grok-3-latest'],
    ['its name at Bedrock', 'us.anthropic.claude-sonnet-4-5-20250929-v1:0'],
    ['its name at Vertex AI', 'claude-sonnet-4-5@20250929'],
  ])('%s: %s', async (_, name) => {
    for (const own of [true, false]) {
      const response = await put(unused(), { other_names: ['fine', name], own });
      expect(response.body.error).toMatchObject({
        code: 'other_name_taken',
        message: expect.stringContaining('alias'),
      });
    }
    const model = unused();
    await put(model);
    expect(await outcome(patch(model, { other_names: [name] }))).toEqual([409, 'other_name_taken']);
  });

  it('nor does a new model whose bare name is another name of one', async () => {
    const model = unused();
    await put(model, { other_names: ['coming-soon'] });
    expect(await outcome(put('acme/coming-soon'))).toEqual([409, 'other_name_taken']);
    expect(await outcome(put('openai/coming-soon'))).toEqual([409, 'other_name_taken']);
    await patch(model, { own: true });
    // Who makes the model keeps the name.
    expect((await put('openai/coming-soon')).status).toBe(201);
    expect(await explained('coming-soon')).toEqual([model, 'other_name']);
    expect(await outcome(patch('openai/coming-soon', { own: true }))).toEqual([409, 'other_name_taken']);
  });

  it('nor do two makers of one name', async () => {
    expect(await outcome(put('acme/gpt-4o', { own: true }))).toEqual([409, 'own_name_taken']);
    expect((await put('acme/gpt-4o')).status).toBe(201);
    expect(await outcome(patch('acme/gpt-4o', { own: true }))).toEqual([409, 'own_name_taken']);
    expect(await explained('gpt-4o')).toEqual(['openai/gpt-4o', 'name']);
  });

  it('also of several that are set at once', async () => {
    const models = Array.from({ length: 6 }, unused);
    const statuses = await Promise.all(
      models.map(async (model) => (await put(model, { other_names: ['at-once'] })).status),
    );
    expect(statuses.toSorted()).toEqual([201, 409, 409, 409, 409, 409]);
  });

  it('until that model is deleted', async () => {
    const [first, second] = [unused(), unused()];
    await put(first, { other_names: ['passed-on'] });
    await api.call('DELETE', at(first));
    expect((await put(second, { other_names: ['passed-on'] })).status).toBe(201);
    expect(await outcome(put(first, { other_names: ['passed-on'] }))).toEqual([409, 'other_name_taken']);
    expect((await put(first)).body.other_names).toEqual([]);
  });
});

describe('a release', () => {
  it('leaves names that an operator changed, and brings the others', async () => {
    const [changed, replaced, kept] = ['openai/gpt-4o', 'openai/gpt-4o-mini', 'openai/gpt-4.1'] as const;
    expect((await patch(changed, { other_names: ['four-oh'] })).body.overridden).toEqual(['other_names']);
    await put(replaced, { other_names: ['four-oh-mini'] });
    for (const id of [changed, replaced, kept]) await release(id, [`${id.slice(7)}-of-release`]);
    const names = async (id: string) => (await api.call('GET', at(id))).body.other_names;
    expect(await names(changed)).toEqual(['four-oh']);
    expect(await names(replaced)).toEqual(['four-oh-mini']);
    expect(await names(kept)).toEqual(['gpt-4.1-of-release']);
    await release(kept, []);
    expect((await api.call('DELETE', at(changed))).body.overridden).toEqual([]);
    expect(await names(changed)).not.toContain('four-oh');
  });
});
