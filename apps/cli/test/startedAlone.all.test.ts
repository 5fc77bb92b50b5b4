import { describe, expect, it } from 'vitest';
import { startApp } from './processes.ts';

describe('an app that is started alone', () => {
  it.each([
    ['control-plane', {}, /DATABASE_URL is missing/],
    ['data-plane', {}, /NATS_URL is missing/],
    ['metering', {}, /DATABASE_URL is missing[\s\S]*NATS_URL is missing/],
    ['control-plane', { DATABASE_URL: 'mysql://x' }, /DATABASE_URL is not valid/],
    // Also on loopback.
    [
      'control-plane',
      { DATABASE_URL: 'postgresql://127.0.0.1:1/x', CONTROL_PLANE_TOKEN: '' },
      /CONTROL_PLANE_TOKEN is missing: a secret/,
    ],
    [
      'data-plane',
      { NATS_URL: 'nats://127.0.0.1:1', CONTROL_PLANE_TOKEN: '' },
      /CONTROL_PLANE_TOKEN is missing: a secret/,
    ],
    [
      'metering',
      { DATABASE_URL: 'postgresql://x/x', NATS_URL: 'nats://x', METRICS_PORT: '8083' },
      /METRICS_PORT is not valid: PORT is 8083/,
    ],
    [
      'metering',
      { DATABASE_URL: 'postgresql://127.0.0.1:1/x', NATS_URL: 'nats://127.0.0.1:1' },
      /DATABASE_URL.*ECONNREFUSED/,
    ],
    ['data-plane', { NATS_URL: 'nats://127.0.0.1:1' }, /NATS/],
  ] as const)('%s with %j says what it lacks', async (app, env, message) => {
    const process = await startApp(app, env, message);
    expect((await process.ended).code).toBe(1);
  });
});
