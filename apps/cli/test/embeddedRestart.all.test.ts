import { eventually, freePort } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mainJob, manage, type Service, sdk } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { failedUp, newDataDir, removeDataDir, startUp } from './startUp.ts';

describe('weighbridge up, started again', () => {
  let dataDir: string;
  let process: RunningProcess;
  let service: Service;

  beforeAll(async () => {
    dataDir = await newDataDir('weighbridge up ');
    ({ process, service } = await startUp(dataDir));
  });
  afterAll(async () => {
    await process?.stop();
    await removeDataDir(dataDir);
  });

  it('names the address of the running one if started twice on the same folder', async () => {
    for (const PORT of [String(await freePort()), new URL(service.managementUrl).port]) {
      const line = await failedUp(dataDir, { PORT });
      expect(line).toContain(`already running on ${dataDir}, at ${service.managementUrl}`);
    }
  });

  it('keeps everything across a restart and a kill', async () => {
    const before = await mainJob(service, 'mock/echo');
    for (const signal of ['SIGINT', 'SIGKILL'] as const) {
      await process.stop(signal);
      ({ process, service } = await startUp(dataDir));
      const { body: usage } = await manage(service, 'GET', `/api/v1/keys/${before.keyId}/usage`);
      expect(usage).toMatchObject({ bucket_spent_micro_usd: before.spentMicroUsd });
    }
  });

  it('keeps a session on its model across a restart and a kill', async () => {
    const operate = async (method: string, path: string, body: object) => {
      const answer = await manage(service, method, `/api/v1${path}`, { body });
      expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
      return answer.body;
    };
    const usd = { currency_code: 'USD', units: 1, nanos: 0 };
    const price = { input_price: usd, output_price: usd };
    const models = ['mock/one', 'mock/two'];
    for (const model of models) {
      const entry = { context_window: 8_000, upstream_name: 'echo', price };
      await operate('PUT', `/catalog/models/${encodeURIComponent(model)}`, entry);
    }
    const targets = models.map((model) => ({ model }));
    const profile = { name: 'in-order', strategy: 'ordered', targets };
    const { id } = await operate('POST', '/profiles', profile);
    const { key } = await operate('POST', '/keys', { name: 'session', principal_id: 'session' });
    const servedBy = async (session: string) => {
      const headers = {
        authorization: `Bearer ${key}`,
        'content-type': 'application/json',
        'x-svc-session-id': session,
      };
      const body = JSON.stringify({ model: 'router/in-order', messages: [{ role: 'user', content: 'x' }] });
      const answer = await fetch(`${service.inferenceUrl}/v1/chat/completions`, {
        method: 'POST',
        headers,
        body,
      });
      return answer.headers.get('x-svc-model');
    };
    await eventually(async () => expect(await servedBy('before')).toBe('mock/one'));
    await operate('PATCH', `/profiles/${id}`, { targets: targets.toReversed() });
    for (const [at, signal] of (['SIGTERM', 'SIGKILL'] as const).entries()) {
      await process.stop(signal);
      ({ process, service } = await startUp(dataDir));
      await eventually(async () => expect(await servedBy(`new-${at}-${Math.random()}`)).toBe('mock/two'));
      expect(await servedBy('before')).toBe('mock/one');
    }
  });

  it('loses no usage from just before it is stopped', async () => {
    const { body } = await manage(service, 'POST', '/api/v1/keys', {
      body: { name: 'last', principal_id: 'last' },
    });
    const messages = [{ role: 'user' as const, content: 'x' }];
    const client = sdk(service, body.key as string);
    await Promise.all(
      Array.from({ length: 20 }, () => client.chat.completions.create({ model: 'mock/echo', messages })),
    );
    const costNano = 8n * 1_000n + 1n * 2_000n;
    await process.stop('SIGTERM');
    ({ process, service } = await startUp(dataDir));
    const { body: report } = await manage(service, 'GET', `/api/v1/keys/${body.id}/usage`);
    expect(report.bucket_spent_micro_usd).toBe(Number((20n * costNano) / 1_000n));
  });
});
