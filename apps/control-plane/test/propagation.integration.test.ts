import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { newUuid } from '@weighbridge/domain';
import { closeEpoch, registerProducer } from '@weighbridge/ledger';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { recordSeen } from '../src/features/proxies/proxies.repository.ts';
import { type OpenApiDocument, operations } from '../src/openapi/types.ts';
import { fixtures } from './fixtures.ts';
import { type Json, startTestApi, type TestApi } from './testApi.ts';

/** `?wait=propagated`: of every operation that changes what proxies know, and whom it waits for. */

const document: OpenApiDocument = JSON.parse(
  readFileSync(new URL('../openapi.json', import.meta.url), 'utf8'),
);
const writes = operations(document).filter(
  ([path, method]) => path.startsWith('/api/v1/') && method !== 'get',
);
/** What they do changes nothing that a proxy was told. */
const UNKNOWN_TO_PROXIES = [
  'createCorrection',
  'createOverride',
  'createWebhook',
  'deleteWebhook',
  'discardQuarantined',
  'endOverride',
  'explainName',
  'explainProfile',
  'rebuildLedger',
  'redeliverWebhook',
  'rejectFeedChange',
  'releaseQuarantined',
  'retireProxy',
  'rotateWebhook',
  'testConnector',
  'testWebhook',
  'updateOverride',
  'updateWebhook',
];

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi({
    WEIGHBRIDGE_KEY_ENCRYPTION_KEY: randomBytes(32).toString('base64'),
    CATALOG_FEED_URL: 'http://127.0.0.1:1/prices.json',
  });
});
afterAll(() => api.close());
beforeEach(async () => {
  await api.db.deleteFrom('proxies').execute();
});

/** A proxy that may serve, and has applied this revision. */
async function serving(appliedRevision = 0n, maxStalenessMs = 60_000): Promise<string> {
  const id = newUuid();
  const load = { inFlightRequests: 0, waitingUsageBytes: 0n, usageLimitBytes: 0n, connectors: [] };
  const about = { name: 'pod', version: '1', takesRows: true, ...load };
  const seen = { ...about, id, appliedRevision, connectedAt: api.now, maxStalenessMs };
  await recordSeen(api.db, [seen]);
  return id;
}

/** A proxy has applied all changes so far. */
async function applied(id: string): Promise<void> {
  await api.db.updateTable('proxies').set({ applied_revision: 1_000_000n }).where('id', '=', id).execute();
}

async function waiting(method: 'POST' | 'PATCH' | 'DELETE', path: string, body: Json = {}, timeoutMs = 0) {
  const query = `wait=propagated&timeout_ms=${timeoutMs}`;
  const { status, headers } = await api.call(method, `${path}?${query}`, { body });
  return [status, headers['x-svc-propagated'], headers['x-svc-pending-proxies']];
}

describe('waiting for propagation', () => {
  it.each(
    writes.map(
      ([path, method, operation]) => [operation.operationId ?? '', method, path, operation] as const,
    ),
  )('%s', async (operationId, method, path, { requestBody }) => {
    let filled = path.replace('/api/v1', '');
    for (const [, name = ''] of path.matchAll(/\{(\w+)\}/g)) {
      const value = await fixtures.parameter(api, name, operationId);
      filled = filled.replace(`{${name}}`, encodeURIComponent(value));
    }
    const body = requestBody && (await fixtures.body(api, operationId, method.toUpperCase()));
    const pending = await serving();
    const { status, headers } = await api.call(
      method.toUpperCase() as 'POST',
      `${filled}?wait=propagated&timeout_ms=0`,
      body === undefined ? {} : { body },
    );
    if (UNKNOWN_TO_PROXIES.includes(operationId)) return expect(status).toBe(400);
    expect(status).toBeLessThan(300);
    expect([headers['x-svc-propagated'], headers['x-svc-pending-proxies']]).toEqual(['false', pending]);
  });

  // Half of the longest wait: one that does not notice fails.
  it('ends as soon as the last proxy has applied the change', { timeout: 30_000 }, async () => {
    const { id } = await api.issue();
    const proxy = await serving();
    let isOver = false;
    const response = waiting('PATCH', `/keys/${id}`, { disabled: true }, 60_000).finally(() => {
      isOver = true;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(isOver).toBe(false);
    await applied(proxy);
    expect(await response).toEqual([200, 'true', undefined]);
  });

  it('names no proxy that has applied the change or may serve no longer', async () => {
    const { id } = await api.issue();
    await serving(1_000_000n);
    await serving(0n, 0);
    expect(await waiting('PATCH', `/keys/${id}`, { name: 'other' })).toEqual([200, 'true', undefined]);
  });

  it('names no run that is superseded: another process has its spool, or a copy was replayed', async () => {
    const { id } = await api.issue();
    const [before, replayed, after] = [await serving(), await serving(), await serving()];
    const [producerId, other] = [newUuid(), newUuid()];
    await registerProducer(api.db, { producerId, epoch: before, name: 'pod', now: api.now });
    await registerProducer(api.db, { producerId: other, epoch: replayed, name: 'pod', now: api.now });
    const all = [before, replayed, after].sort().join(',');
    expect(await waiting('PATCH', `/keys/${id}`, { name: 'a' })).toEqual([200, 'false', all]);
    await registerProducer(api.db, { producerId, epoch: after, name: 'pod', now: api.now });
    // A process closes its epoch before it stops serving; only a replay leaves it closed for longer.
    await closeEpoch(api.db, {
      producerId: other,
      epoch: replayed,
      lastN: [0n, 0n, 0n, 0n],
      now: new Date(),
    });
    const left = [replayed, after].sort().join(',');
    expect(await waiting('PATCH', `/keys/${id}`, { name: 'b' })).toEqual([200, 'false', left]);
    await api.db
      .updateTable('producers')
      .set({ ended_at: new Date(Date.now() - 11_000) })
      .where('epoch', '=', replayed)
      .execute();
    expect(await waiting('PATCH', `/keys/${id}`, { name: 'c' })).toEqual([200, 'false', after]);
  });

  it('does not delay an error, which has no such headers', async () => {
    const proxy = await serving();
    const { id } = await api.issue();
    let isOver = false;
    const change = waiting('PATCH', `/keys/${id}`, { name: 'other' }, 60_000).finally(() => {
      isOver = true;
    });
    for (const [path, body] of [
      ['/keys/key_unknown', {}],
      [`/keys/${id}`, { unknown: 1 }],
    ] as const) {
      const [status, ...headers] = await waiting('PATCH', path, body, 60_000);
      expect(status).toBeGreaterThanOrEqual(400);
      expect(headers).toEqual([undefined, undefined]);
    }
    // A change that began to wait before still waits.
    expect(isOver).toBe(false);
    await applied(proxy);
    expect(await change).toEqual([200, 'true', undefined]);
  });
});
