import { execFile } from 'node:child_process';
import { stat } from 'node:fs/promises';
import { type IncomingMessage, request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import OpenAI from 'openai';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { documentedMetrics, labelsOf, typesOf } from './documentedMetrics.ts';
import { mainJob, manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

describe('weighbridge up', () => {
  let dataDir: string;
  let vendor: MockVendor;
  let process: RunningProcess;
  let service: Service;

  beforeAll(async () => {
    dataDir = await newDataDir('weighbridge up ');
    vendor = await startMockVendor();
    ({ process, service } = await startUp(dataDir, {
      OPENAI_API_KEY: 'sk-vendor',
      OPENAI_BASE_URL: vendor.url,
    }));
  });
  afterAll(async () => {
    await process?.stop();
    await vendor?.close();
    await removeDataDir(dataDir);
  });

  it('meters a completion of the mock provider to the micro-USD', async () => {
    await mainJob(service, 'mock/echo');
  });

  const scrape = (key?: string) =>
    fetch(`${service.managementUrl}/metrics`, key ? { headers: { authorization: `Bearer ${key}` } } : {});

  it('creates connectors for the vendor keys in its environment, and warns that they cost real money', async () => {
    await mainJob(service, 'openai/gpt-4o-mini');
    expect(vendor.requests[0]?.headers.authorization).toBe('Bearer sk-vendor');
    expect(process.output()).toMatch(/Connectors from the environment: openai\.\nWARNING: .*real money/);
  });

  it('prints curl commands that work when pasted into a shell in any folder', async () => {
    const lines = process
      .output()
      .split('\n')
      .map((line) => line.trim());
    const curls = lines.filter((line) => /^(curl |KEY=|ANSWER=)/.test(line));
    expect(curls).toHaveLength(3);
    const { stdout } = await promisify(execFile)('sh', ['-c', curls.join('\n')], { cwd: tmpdir() });
    expect(stdout).toContain('"content":"Hello, weighbridge!"');
    const [, cost] = /^x-svc-cost-micro-usd: (\d+)/m.exec(stdout) ?? [];
    expect(Number(cost)).toBeGreaterThan(0);
    const [row = ''] = stdout.trim().split('\n').slice(-1);
    expect(JSON.parse(row)).toMatchObject({
      key_name: 'my app',
      outcome: 'success',
      cost_micro_usd: Number(cost),
    });
    expect(process.output()).toContain(`export OPENAI_BASE_URL=${service.inferenceUrl}/v1`);
    expect(process.output()).toContain(`export ANTHROPIC_BASE_URL=${service.inferenceUrl}`);
  });

  it('writes the operator key to a file that only its user can read', async () => {
    expect((await stat(join(dataDir, 'operator-key'))).mode & 0o777).toBe(0o600);
    expect(process.output()).toContain(join(dataDir, 'operator-key'));
    expect(process.output()).not.toContain(service.operatorKey);
  });

  it('is healthy and ready', async () => {
    for (const path of ['/healthz', '/readyz'])
      expect((await fetch(service.managementUrl + path)).status).toBe(200);
  });

  it('serves exactly the documented metrics of all three apps at one /metrics, to operators', async () => {
    await mainJob(service, 'mock/echo');
    const text = await (await scrape(service.operatorKey)).text();
    const documented = await documentedMetrics();
    expect(typesOf(text)).toEqual(new Map([...documented].map(([name, { type }]) => [name, type])));
    for (const [name, labels] of labelsOf(text)) expect(documented.get(name)?.labels, name).toEqual(labels);
  });

  it('serves metrics to no one else', async () => {
    const scopes = ['inference', 'keys:read', 'keys:write', 'usage:read', 'models:read'];
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'curious', scopes } });
    const answers = await Promise.all([scrape(), scrape('sk-svc-wrong'), scrape(String(body.key))]);
    expect(answers.map(({ status }) => status)).toEqual([401, 401, 403]);
    for (const answer of answers) expect(await answer.text()).not.toContain('# HELP');
    const put = await fetch(`${service.managementUrl}/metrics`, { method: 'PUT' });
    expect([put.status, put.headers.get('allow')]).toEqual([405, 'GET, HEAD']);
  });

  it("refuses with the SDK's error classes", async () => {
    const messages = [{ role: 'user' as const, content: 'x' }];
    const complete = (key: string, model: string) =>
      sdk(service, key).chat.completions.create({ model, messages });
    const { body } = await manage(service, 'POST', '/api/v1/keys', { body: { name: 'refused' } });
    const key = body.key as string;
    const mistyped = `${key.slice(0, -1)}${key.endsWith('a') ? 'b' : 'a'}`;

    await expect(complete(mistyped, 'mock/echo')).rejects.toThrow(OpenAI.AuthenticationError);
    await expect(complete(mistyped, 'mock/echo')).rejects.toMatchObject({ code: 'invalid_api_key' });
    expect((await complete(key, 'gpt-4o-mini')).model).toBe('gpt-4o-mini');
    await expect(complete(key, 'gpt-4o-mimi')).rejects.toThrow(/Did you mean openai\/gpt-4o-mini/);
    await expect(complete(key, 'openai/no-such')).rejects.toThrow(OpenAI.NotFoundError);
    for (const name of ['xai/grok-4.3', 'grok-4.3']) {
      await expect(complete(key, name)).rejects.toMatchObject({
        code: 'model_not_found',
        param: 'model',
        message: expect.stringContaining('The catalog has it as xai/grok-4.3, and no enabled connector'),
      });
    }

    const elsewhere = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'b', principal_id: 'bob' },
    });
    const foreign = await manage(service, 'GET', `/api/v1/keys/${body.id}`, {
      key: elsewhere.body.key as string,
    });
    expect([foreign.status, foreign.body.error]).toMatchObject([404, { type: 'not_found_error' }]);
    const narrow = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'n', scopes: ['inference'] },
    });
    const lacking = await manage(service, 'GET', '/api/v1/usage', { key: narrow.body.key as string });
    expect([lacking.status, lacking.body.error]).toMatchObject([403, { code: 'insufficient_scope' }]);
  });

  it('serves request targets in absolute form, and with any query', async () => {
    const { port } = new URL(service.managementUrl);
    const code = async (target: string) => {
      const answer = await new Promise<IncomingMessage>((resolve, reject) => {
        request({ port, host: '127.0.0.1', path: target }, resolve).on('error', reject).end();
      });
      const body = await text(answer);
      return (body && JSON.parse(body).error?.code) || answer.statusCode;
    };
    const own = service.managementUrl;
    expect(await code(`${own}/v1/models`)).toBe('missing_api_key');
    expect(await code(`${own}/v1/models?page=1`)).toBe(await code('/v1/models?page=1'));
    expect(await code(`${own}/healthz`)).toBe(200);
    // The inference surface answers; the operator API does not have these paths.
    expect(await code('/v1?x=1')).toBe(await code('/v1'));
    // This path leads to the console.
    expect([await code(`${own}?x=1`), await code('/?x=1')]).toEqual([302, 302]);
  });

  it("shows the spend of a parent policy to an operator's key", async () => {
    const create = async (path: string, body: object) => {
      const created = await manage(service, 'POST', `/api/v1/${path}`, { body });
      expect(created).toMatchObject({ status: 201 });
      return created.body;
    };
    const parent = await create('policies', { name: 'spent parent', limit_micro_usd: 0, window: 'month' });
    const child = await create('policies', {
      name: 'child',
      parent_policy_id: parent.id,
      window: 'month',
    });
    for (const [scope, policyId] of [
      ['inference', undefined],
      ['operator', parent.id],
    ] as const) {
      const { key } = await create('keys', { name: scope, scopes: [scope], policy_id: child.id });
      const messages = [{ role: 'user' as const, content: 'x' }];
      const refused = await sdk(service, String(key))
        .chat.completions.create({ model: 'mock/echo', messages })
        .catch((error) => error);
      expect(refused).toMatchObject({ status: 429, code: 'budget_exhausted' });
      expect(refused.error.policy_id).toBe(policyId);
    }
  });

  it('keeps everything when it is killed and started again', async () => {
    const before = await mainJob(service, 'mock/echo');
    await process.stop('SIGKILL');
    ({ process, service } = await startUp(dataDir));
    const { body: usage } = await manage(service, 'GET', `/api/v1/keys/${before.keyId}/usage`);
    expect(usage).toMatchObject({ bucket_spent_micro_usd: before.spentMicroUsd });
    // Without the vendor's key, its models are gone too.
    const { body } = await manage(service, 'GET', '/api/v1/models');
    expect((body.data as { model: string }[]).map(({ model }) => model)).toEqual(['mock/echo']);
  });
});
