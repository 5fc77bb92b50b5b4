import { memoryLimitBytes, SettingsError } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { environmentOf, loadConfig, loadLocalConfig, loadProcessConfig } from './config.ts';

it('requires a key to share cached responses', () => {
  const env = { NATS_URL: 'nats://127.0.0.1:4222', RESPONSE_CACHE_SHARED: 'true' };
  expect(() => loadProcessConfig(env)).toThrow(SettingsError);
  expect(() => loadProcessConfig({ ...env, RESPONSE_CACHE_KEY: 'short' })).toThrow('RESPONSE_CACHE_KEY');
  const key = Buffer.alloc(32, 7).toString('base64');
  expect(loadProcessConfig({ ...env, RESPONSE_CACHE_KEY: key }).sharedCache?.sealingKey).toHaveLength(32);
  const { RESPONSE_CACHE_SHARED: _, ...alone } = env;
  expect(loadProcessConfig(alone).sharedCache).toBeUndefined();
});

it('captures content only where TRACE_CONTENT is on and a collector is set', () => {
  const collector = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:4318' };
  expect(loadLocalConfig(collector).content).toBeUndefined();
  expect(loadLocalConfig({ ...collector, TRACE_CONTENT: 'true' }).content).toEqual({ maxLength: 4_096 });
  expect(() => loadLocalConfig({ TRACE_CONTENT: 'true' })).toThrow('OTEL_EXPORTER_OTLP_ENDPOINT is missing');
});

it('gives requests a third of the memory limit unless it is told otherwise, and each of several processes its share', () => {
  expect(loadLocalConfig({}).memoryBudgetBytes).toBe(Math.floor(memoryLimitBytes() / 3));
  const env = { NATS_URL: 'nats://127.0.0.1:4222', MEMORY_BUDGET_BYTES: '300000000', PROCESSES: '3' };
  expect(loadLocalConfig(env).memoryBudgetBytes).toBe(300_000_000);
  const share = environmentOf(env, 1);
  expect(loadLocalConfig({ ...env, ...share }).memoryBudgetBytes).toBe(100_000_000);
  expect(() => loadLocalConfig({ MEMORY_BUDGET_BYTES: '1000' })).toThrow('MEMORY_BUDGET_BYTES');
});

it('always needs the token of its control plane, and says so', () => {
  for (const env of [{}, { CONTROL_PLANE_TOKEN: '' }])
    expect(() => loadConfig(env)).toThrow(/^CONTROL_PLANE_TOKEN is missing: a secret of at least 16/);
  expect(() => loadConfig({ CONTROL_PLANE_TOKEN: 'short' })).toThrow(/^CONTROL_PLANE_TOKEN is not valid/);
  const token = 'a token that the apps share';
  expect(loadConfig({ CONTROL_PLANE_TOKEN: token }).controlPlane).toMatchObject({ token });
});

it('serves metrics on their own port, one for each process', () => {
  const env = { NATS_URL: 'nats://127.0.0.1:4222', PROCESSES: '3' };
  expect(loadProcessConfig(env).metrics).toBeUndefined();
  expect(environmentOf(env, 2)).not.toHaveProperty('METRICS_PORT');
  const metered = { ...env, METRICS_PORT: '9090' };
  expect(loadProcessConfig(metered).metrics).toEqual({ host: '127.0.0.1', port: 9_090 });
  expect(environmentOf(metered, 2)).toMatchObject({ METRICS_PORT: '9092' });
  expect(environmentOf({ ...metered, METRICS_PORT: '0' }, 2)).toMatchObject({ METRICS_PORT: '0' });
  expect(() => loadProcessConfig({ ...env, METRICS_PORT: '8080' })).toThrow('METRICS_PORT is not valid');
  expect(() => environmentOf({ ...env, METRICS_PORT: '8078' }, 2)).toThrow('METRICS_PORT is not valid');
  expect(() => environmentOf({ ...env, METRICS_PORT: '65535' }, 2)).toThrow('METRICS_PORT is not valid');
});
