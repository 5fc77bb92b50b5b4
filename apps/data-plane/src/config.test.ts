import { memoryLimitBytes, SettingsError } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { environmentOf, loadConfig, loadProcessConfig } from './config.ts';

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
  expect(loadConfig(collector).content).toBeUndefined();
  expect(loadConfig({ ...collector, TRACE_CONTENT: 'true' }).content).toEqual({ maxLength: 4_096 });
  expect(() => loadConfig({ TRACE_CONTENT: 'true' })).toThrow('OTEL_EXPORTER_OTLP_ENDPOINT is missing');
});

it('gives requests a third of the memory limit unless it is told otherwise, and each of several processes its share', () => {
  expect(loadConfig({}).memoryBudgetBytes).toBe(Math.floor(memoryLimitBytes() / 3));
  const env = { NATS_URL: 'nats://127.0.0.1:4222', MEMORY_BUDGET_BYTES: '300000000', PROCESSES: '3' };
  expect(loadConfig(env).memoryBudgetBytes).toBe(300_000_000);
  const share = environmentOf(env, 1);
  expect(loadConfig({ ...env, ...share }).memoryBudgetBytes).toBe(100_000_000);
  expect(() => loadConfig({ MEMORY_BUDGET_BYTES: '1000' })).toThrow('MEMORY_BUDGET_BYTES');
});
