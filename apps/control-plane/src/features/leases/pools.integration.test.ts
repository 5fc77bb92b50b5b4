import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client, credentials } from '@grpc/grpc-js';
import { bucketKey, POLICY_SUBJECT } from '@weighbridge/budget';
import { BudgetLease_Outcome, ControlService, callUnary, tokenMetadata } from '@weighbridge/contracts';
import { createDatabasePools, createDb } from '@weighbridge/database';
import { mintToken, newUuid } from '@weighbridge/domain';
import { registerProducer } from '@weighbridge/ledger';
import { createLogger } from '@weighbridge/runtime';
import { untilLockWaits, useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { loadConfig } from '../../config.ts';
import { startControlPlane } from '../../controlPlane.ts';

const TOKEN = 'a token that the apps share';
const OPERATOR = mintToken();
/** More than all connections of all pools. */
const CALLS = 40;
const database = useDatabase({ maxConnections: 4 });
const closing: (() => unknown)[] = [];
let client: Client;
let url: string;

beforeAll(async () => {
  const logger = createLogger('test');
  logger.level = 'silent';
  const context = {
    logger,
    onShutdown: (_name: string, step: () => unknown) => void closing.unshift(step),
    fail: (error: Error) => {
      throw error;
    },
  };
  const config = loadConfig({
    DATABASE_URL: database.url,
    CONTROL_PLANE_TOKEN: TOKEN,
    PORT: '0',
    GRPC_PORT: '0',
    WEIGHBRIDGE_BOOTSTRAP_KEY: OPERATOR,
  });
  const unlogged = { applicationName: 'test', onIdleError: () => {} };
  const opened = createDatabasePools(database.url, config.pools, unlogged);
  closing.unshift(() => opened.destroy());
  // Their calls wait until the test is over.
  const waiting = { statementTimeoutMs: 110_000, maxConnections: config.pools.leases };
  const leases = createDb(database.url, { ...unlogged, ...waiting });
  closing.unshift(() => leases.destroy());
  const pools = { ...opened, leases };
  const { grpcAddress, handler } = await startControlPlane(config, { pools, now: () => new Date() }, context);
  client = new Client(grpcAddress, credentials.createInsecure());
  const server = createServer(handler);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/api/v1`;
  closing.unshift(() => server.close());
});
afterAll(async () => {
  client.close();
  for (const step of closing) await step();
});

const options = { timeoutMs: 60_000, metadata: tokenMetadata(TOKEN) };

async function operate(path: string, body?: object): Promise<{ status: number; body: { id: string } }> {
  const response = await fetch(`${url}${path}`, {
    method: body ? 'POST' : 'GET',
    headers: { authorization: `Bearer ${OPERATOR}`, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  });
  return { status: response.status, body: (await response.json()) as { id: string } };
}

const budget = async (name: string) =>
  (await operate('/policies', { name, counter_scope: 'policy', window: 'none', limit_micro_usd: 1_000_000 }))
    .body.id;

async function lease(policyId: string) {
  const holder = { producerId: newUuid(), epoch: newUuid() };
  await registerProducer(database.db, { ...holder, name: '', now: new Date() });
  const bucket = { policyId, counterVersion: 1, subject: POLICY_SUBJECT, windowStartMs: 0n };
  const budgets = [{ bucket, seq: 1n, minimumNanoUsd: 1_000n }];
  return await callUnary(client, ControlService.method.lease, { ...holder, budgets, rates: [] }, options);
}

it.each([
  ['one budget', 1, 2],
  // All connections of lease calls wait.
  ['several budgets', 4, 6],
])('while calls wait for the lock of %s, everything else goes on', async (name, budgets, waiting) => {
  const contended = await Promise.all(Array.from({ length: budgets }, (_, n) => budget(`${name} ${n}`)));
  const other = await budget(`beside ${name}`);
  for (const policyId of contended) await lease(policyId);
  const keys = contended.map((policyId) =>
    bucketKey({ policyId, counterVersion: 1, subject: POLICY_SUBJECT, windowStartMs: 0n }),
  );
  let isHeld = true;
  const { asking, waits } = await database.db.transaction().execute(async (tx) => {
    await sql`SELECT FROM spend_buckets WHERE bucket_key = ANY (${keys}::text[]) FOR UPDATE`.execute(tx);
    // A call that waited for too long is made again, as a proxy does.
    const askAgain = async (policyId: string) => {
      while (isHeld) await lease(policyId).catch(() => {});
    };
    const asking = contended.flatMap((policyId) =>
      Array.from({ length: CALLS / budgets }, () => askAgain(policyId)),
    );
    try {
      await untilLockWaits(database.db, waiting);
      const tokenSha256 = createHash('sha256').update(OPERATOR).digest();
      const resolved = await callUnary(client, ControlService.method.resolve, { tokenSha256 }, options);
      expect(resolved.key?.id).toMatch(/^key_/);
      const written = await operate('/policies', { name: `written beside ${name}`, window: 'day' });
      expect(written.status).toBe(201);
      expect((await operate('/spend')).status).toBe(200);
      expect((await operate('/requests')).status).toBe(200);
      if (budgets === 1) {
        expect((await lease(other)).budgets).toMatchObject([{ outcome: BudgetLease_Outcome.GRANTED }]);
      }
      await untilLockWaits(database.db, waiting);
      const { rows } = await sql<{ waits: number }>`
        SELECT count(DISTINCT pid)::integer AS waits FROM pg_locks JOIN pg_stat_activity USING (pid)
        WHERE NOT granted AND datname = current_database()`.execute(database.db);
      return { asking, waits: rows[0]?.waits };
    } finally {
      isHeld = false;
    }
  });
  // The others wait in the process.
  expect(waits).toBeLessThanOrEqual(waiting);
  await Promise.all(asking);
  // The budget is free again; its leases may hold all of it.
  for (const policyId of contended) expect((await lease(policyId)).budgets).toHaveLength(1);
});
