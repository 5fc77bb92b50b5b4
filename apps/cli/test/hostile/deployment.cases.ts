import { expect } from 'vitest';
import { startApp } from '../processes.ts';
import type { HostileCase } from './hostileCase.ts';
import type { Scene } from './scene.ts';

/** What the parts of a deployment keep from tenants, from each other, and from other users of their machine. */
export const DEPLOYMENT: readonly HostileCase[] = [
  {
    row: 'metrics',
    title: 'no one who can send a request for inference can read what others use',
    run: metricsAreNotForTenants,
  },
  {
    row: 'token',
    title:
      'no control plane serves credentials, and no proxy asks for them, without a token, on loopback either',
    run: tokenIsAlwaysRequired,
  },
];

async function metricsAreNotForTenants({ product, tenant }: Scene): Promise<void> {
  const { key } = await tenant();
  await expect(scrapes(product.inferenceUrl, key)).resolves.toEqual([]);
  await expect(scrapes(product.managementUrl, key)).resolves.toEqual([]);
  const status = async (url: string, headers: Record<string, string> = {}) =>
    (await fetch(`${url}/metrics`, { headers })).status;
  const asOperator = { authorization: `Bearer ${product.operatorKey}` };
  if (product.mode === 'embedded') {
    expect(await status(product.inferenceUrl)).toBe(401);
    expect(await status(product.inferenceUrl, { authorization: `Bearer ${key}` })).toBe(403);
    expect(await status(product.inferenceUrl, asOperator)).toBe(200);
  } else {
    for (const url of [product.inferenceUrl, product.managementUrl]) {
      const answer = await fetch(`${url}/metrics`, { headers: asOperator });
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ error: { code: 'route_not_found' } });
    }
  }
}

/** The ways of asking an address for metrics that return some. */
async function scrapes(url: string, key: string): Promise<string[]> {
  const paths = [
    '/metrics',
    '/metrics/',
    '/metrics?x=1',
    '//metrics',
    '/%6detrics',
    '/v1/metrics',
    '/v1/../metrics',
  ];
  const found: string[] = [];
  for (const path of paths) {
    for (const headers of [{}, { authorization: `Bearer ${key}` }, { 'x-api-key': key }]) {
      const answer = await fetch(`${url}${path}`, { headers });
      if (/^# (HELP|TYPE) /m.test(await answer.text())) found.push(`${path} ${Object.keys(headers)}`);
    }
  }
  return found;
}

async function tokenIsAlwaysRequired(): Promise<void> {
  // They would fail later, for another reason: nothing listens there.
  const nowhere = { DATABASE_URL: 'postgresql://127.0.0.1:1/x', NATS_URL: 'nats://127.0.0.1:1' };
  for (const app of ['control-plane', 'data-plane'] as const) {
    const started = await startApp(app, { ...nowhere, CONTROL_PLANE_TOKEN: '' }, /\n/);
    expect((await started.ended).code).toBe(1);
    expect(started.output()).toContain('CONTROL_PLANE_TOKEN is missing');
  }
}
