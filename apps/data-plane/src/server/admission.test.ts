import { Enforcement } from '@weighbridge/contracts';
import { beforeEach, describe, expect, it } from 'vitest';
import { type InferenceApp, keyWithPolicy, refusal, startInferenceApp } from '../../test/inferenceApp.ts';
import { useVendor } from '../../test/useProxy.ts';

const vendor = useVendor();
let app: InferenceApp;
beforeEach(async () => {
  app = await startInferenceApp(vendor.url);
});

describe('admission', () => {
  it('refuses a spent budget with its figures, and lets a free model pass', async () => {
    app.key = keyWithPolicy({ limitNanoUsd: 5_000_000n });
    app.spent.set('pol_1', 5_000_000n);
    expect(await refusal(app.ask())).toMatchObject({
      status: 429,
      type: 'insufficient_quota',
      code: 'budget_exhausted',
      policy_id: 'pol_1',
      limit_micro_usd: 5_000,
      spent_micro_usd: 5_000,
      reset: '2100-01-01T00:00:00.000Z',
    });
    expect((await app.ask()).headers.get('x-should-retry')).toBe('false');
    expect((await app.ask({ model: 'mock/free' })).status).toBe(200);
    expect(vendor.requests.map(({ body }) => JSON.parse(String(body)).model)).toEqual(['free']);
  });

  it('spends nothing where usage finds no room, and lets a free model pass', async () => {
    app = await startInferenceApp(vendor.url, 2_000);
    expect(await refusal(app.ask())).toMatchObject({ status: 503, code: 'usage_backlog' });
    expect(vendor.requests).toHaveLength(0);
    expect((await app.ask({ model: 'mock/free' })).status).toBe(200);
    expect(vendor.requests.map(({ body }) => JSON.parse(String(body)).model)).toEqual(['free']);
  });

  it('sends nothing that could not be written down, though there seemed to be room', async () => {
    app = await startInferenceApp(vendor.url, 18_000);
    const label = (at: number) => `label${at}=${'v'.repeat(240)}`;
    const labels = Array.from({ length: 40 }, (_, at) => label(at)).join(',');
    expect(await refusal(app.ask({}, { 'x-svc-labels': labels }))).toMatchObject({
      status: 503,
      code: 'usage_backlog',
    });
    expect(vendor.requests).toHaveLength(0);
    expect((await app.ask()).status).toBe(200);
  });

  it("tells a parent policy's figures to operators only", async () => {
    const own = keyWithPolicy();
    const parent = keyWithPolicy({ policyId: 'pol_2', limitNanoUsd: 5_000_000n });
    app.spent.set('pol_2', 6_000_000n);
    app.key = { ...own, policies: [...own.policies, ...parent.policies] };
    const figures = { policy_id: 'pol_2', limit_micro_usd: 5_000, spent_micro_usd: 6_000 };
    const told: Record<string, unknown> = await refusal(app.ask());
    expect(told).toMatchObject({ status: 429, code: 'budget_exhausted', reset: '2100-01-01T00:00:00.000Z' });
    for (const name of Object.keys(figures)) expect(told).not.toHaveProperty(name);
    app.key = { ...app.key, isOperator: true };
    expect(await refusal(app.ask())).toMatchObject({
      code: 'budget_exhausted',
      message: expect.stringContaining('is used up: 6000 micro-USD of 5000 micro-USD'),
      ...figures,
    });
  });

  it('counts but does not refuse under a policy that is in shadow', async () => {
    app.key = keyWithPolicy({ limitNanoUsd: 1n, enforcement: Enforcement.SHADOW });
    app.spent.set('pol_1', 5n);
    expect((await app.ask()).status).toBe(200);
  });

  it('refuses what a policy does not allow, and what has no price', async () => {
    app.key = keyWithPolicy({ allowedModels: ['mock/e*'] });
    expect((await app.ask()).status).toBe(200);
    expect(await refusal(app.ask({ model: 'mock/free' }))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
    });
    expect(await refusal(app.ask({ model: 'mock/unpriced' }))).toMatchObject({
      status: 404,
      code: 'model_not_found',
    });
    // A bare name, under the policy of its model.
    expect((await app.ask({ model: 'echo' })).headers.get('x-svc-model')).toBe('mock/echo');
    expect(await refusal(app.ask({ model: 'free' }))).toMatchObject({
      status: 403,
      code: 'model_not_allowed',
      message: 'A policy of this key does not allow the model mock/free, for which free stands.',
    });
    for (const model of ['MOCK/Echo', 'NOBODY/echo', 'ecko', ' echo']) {
      expect(await refusal(app.ask({ model }))).toMatchObject({
        status: 404,
        code: 'model_not_found',
        message: expect.stringContaining('Did you mean mock/echo?'),
      });
    }
    for (const model of ['', ' ', '/', 'mock/', '/echo', 'ec\nho', 5, null, ['echo'], {}]) {
      expect(await refusal(app.ask({ model }))).toMatchObject({ status: 400, code: 'invalid_model' });
    }
  });

  it('is 503, not 401, if no control plane can be asked about the key', async () => {
    app.resolve = () => Promise.reject(new Error('the control plane is away'));
    expect(await refusal(app.ask())).toMatchObject({ status: 503, code: 'control_plane_unreachable' });
  });

  it('says that the word Bearer is missing, with the code of a request without a key', async () => {
    const [bare, none] = await Promise.all(
      ['sk-svc-1234', 'Basic YTpi'].map((authorization) => refusal(app.ask({}, { authorization }))),
    );
    const missing = (text: string) => ({
      status: 401,
      code: 'missing_api_key',
      message: expect.stringContaining(text),
    });
    expect(bare).toMatchObject(missing('lacks "Bearer " before the API key'));
    expect(none).toMatchObject(missing('has no API key'));
  });

  it('says of a disabled key that it may be revoked, for good', async () => {
    app.key = { ...keyWithPolicy(), disabled: true };
    expect(await refusal(app.ask())).toMatchObject({
      status: 401,
      code: 'key_disabled',
      message: expect.stringContaining('disabled or revoked'),
    });
  });

  it('refuses before the body is read: an unknown key, a body too large', async () => {
    app.key = undefined;
    expect(await refusal(app.ask({ filler: 'x'.repeat(20_000) }))).toMatchObject({
      status: 401,
      code: 'invalid_api_key',
    });
    app.key = keyWithPolicy();
    expect(await refusal(app.ask({ filler: 'x'.repeat(20_000) }))).toMatchObject({
      status: 413,
      code: 'body_too_large',
      message: expect.stringContaining('10000 bytes'),
    });
    for (const type of ['x', 'application/json,text/plain', '+json']) {
      expect(await refusal(app.ask({}, { 'content-type': type }))).toMatchObject({
        status: 415,
        param: 'content-type',
      });
    }
    expect(app.events).toEqual([]);
  });
});
