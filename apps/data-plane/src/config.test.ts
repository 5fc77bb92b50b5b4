import { SettingsError } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { loadConfig, loadProcessConfig } from './config.ts';

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
