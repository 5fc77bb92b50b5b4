import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Client, type ClientDuplexStream, credentials, status } from '@grpc/grpc-js';
import {
  ControlService,
  callUnary,
  MAX_USAGE_SHARDS,
  openBidi,
  SettleResponseResponse_Result,
  tokenMetadata,
  type WatchRequest,
  WatchRequestSchema,
  type WatchResponse,
} from '@weighbridge/contracts';
import { mintToken, newUuid } from '@weighbridge/domain';
import { recordUsage } from '@weighbridge/ledger';
import { createLogger } from '@weighbridge/runtime';
import { eventually, useDatabase } from '@weighbridge/testing';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadConfig } from '../../config.ts';
import { startControlPlane } from '../../controlPlane.ts';

/** Proxies that speak gRPC to two control planes on one database. */

const TOKEN = 'a token that the apps share';
const database = useDatabase();
let addresses: string[];
const closing: (() => unknown)[] = [];
const clients: Client[] = [];

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
    ACCEPT_UNSIGNED_CALLS: 'true',
    PORT: '0',
    GRPC_PORT: '0',
    WEIGHBRIDGE_BOOTSTRAP_KEY: mintToken(),
  });
  const { db } = database;
  const deps = { pools: { writes: db, leases: db, lookups: db, reports: db }, now: () => new Date() };
  addresses = [
    (await startControlPlane(config, deps, context)).grpcAddress,
    (await startControlPlane(config, deps, context)).grpcAddress,
  ];
});
afterAll(async () => {
  for (const client of clients) client.close();
  for (const step of closing) await step();
});

function clientOf(controlPlane: number): Client {
  const client = new Client(addresses[controlPlane] ?? '', credentials.createInsecure());
  clients.push(client);
  return client;
}

/** A run of a proxy's process that watches a control plane, and what it received. */
function startProxy(producerId: string, epoch = newUuid(), controlPlane = 0) {
  const stream: ClientDuplexStream<WatchRequest, WatchResponse> = openBidi(
    clientOf(controlPlane),
    ControlService.method.watch,
    tokenMetadata(TOKEN),
  );
  const seen = { heartbeats: 0, ended: undefined as { code: number; details: string } | undefined };
  stream.on('data', ({ message }: WatchResponse) => {
    if (message.case === 'heartbeat') seen.heartbeats++;
  });
  stream.on('error', () => {});
  stream.on('status', (ended: { code: number; details: string }) => {
    seen.ended = ended;
  });
  const sendMessage = (message: MessageInitShape<typeof WatchRequestSchema>['message']) => {
    if (message) stream.write(create(WatchRequestSchema, { message }));
  };
  sendMessage({
    case: 'hello',
    value: { proxyId: epoch, version: '1', maxStalenessMs: 60_000, name: 'pod-1', producerId },
  });
  return {
    epoch,
    seen,
    report: (markAgeMs: bigint) => sendMessage({ case: 'status', value: { markAgeMs, sentAtMs: 1n } }),
    leave: () => stream.end(),
  };
}

const producer = (epoch: string) =>
  database.db.selectFrom('producers').selectAll().where('epoch', '=', epoch).executeTakeFirst();
const closeEpoch = async (request: { producerId: string; epoch: string; lastN: bigint[] }) => {
  const options = { timeoutMs: 5_000, metadata: tokenMetadata(TOKEN) };
  return (await callUnary(clientOf(0), ControlService.method.closeEpoch, request, options)).isClosed;
};

// A heartbeat comes each second, so these tests wait side by side.
describe.concurrent('a proxy that reports its spool', () => {
  it('is recorded from its hello on, and its watermark follows its status', async () => {
    const producerId = newUuid();
    const proxy = startProxy(producerId);
    const first = await eventually(async () => {
      const row = await producer(proxy.epoch);
      expect(row).toMatchObject({ producer_id: producerId, name: 'pod-1', state: 'open' });
      return row;
    });
    await eventually(async () => {
      const now = Date.now();
      proxy.report(0n);
      const mark = (await producer(proxy.epoch))?.mark_at.getTime() ?? 0;
      // It is as old as reported, and no newer than the report.
      expect(mark).toBeGreaterThan(first?.mark_at.getTime() ?? 0);
      expect(mark).toBeLessThanOrEqual(now + 1_000);
    });
    const before = (await producer(proxy.epoch))?.mark_at;
    proxy.report(3_600_000n);
    const { heartbeats } = proxy.seen;
    await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(heartbeats + 1));
    // A watermark never goes back.
    expect((await producer(proxy.epoch))?.mark_at).toEqual(before);
    proxy.leave();
  });

  it('is not seen while it sends nothing, even if it is connected', async () => {
    const proxy = startProxy(newUuid());
    await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(0));
    const lastSeen = async () => (await producer(proxy.epoch))?.last_seen_at.getTime() ?? 0;
    const greeted = await lastSeen();
    proxy.report(0n);
    await eventually(async () => expect(await lastSeen()).toBeGreaterThan(greeted));
    const heard = await lastSeen();
    const { heartbeats } = proxy.seen;
    await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(heartbeats + 2));
    expect(await lastSeen()).toBe(heard);
    proxy.leave();
  });

  it('gets heartbeats while metering locks its row', async () => {
    const proxy = startProxy(newUuid());
    await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(0));
    await database.db.transaction().execute(async (tx) => {
      await sql`SELECT FROM producers WHERE epoch = ${proxy.epoch} FOR UPDATE`.execute(tx);
      proxy.report(0n);
      const { heartbeats } = proxy.seen;
      await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(heartbeats + 2));
    });
    proxy.leave();
  });

  it.each([
    ['the same control plane', 0],
    ['another one', 1],
  ])(
    'is ended when another process takes over its spool, at %s, and is refused afterwards',
    async (_where, at) => {
      const producerId = newUuid();
      const first = startProxy(producerId);
      await eventually(() => expect(first.seen.heartbeats).toBeGreaterThan(0));
      const second = startProxy(producerId, newUuid(), at);
      await eventually(() => {
        first.report(0n);
        expect(first.seen.ended).toMatchObject({
          code: status.FAILED_PRECONDITION,
          details: expect.stringContaining('epoch_superseded'),
        });
      });
      expect(await producer(first.epoch)).toMatchObject({ superseded_by: second.epoch });
      const again = startProxy(producerId, first.epoch);
      await eventually(() => expect(again.seen.ended?.code).toBe(status.FAILED_PRECONDITION));
      const { heartbeats } = second.seen;
      await eventually(() => expect(second.seen.heartbeats).toBeGreaterThan(heartbeats));
      expect(second.seen.ended).toBeUndefined();
      second.leave();
    },
  );

  it('is ended when a copy of its spool was replayed while it runs, since it gets no leases any more', async () => {
    const producerId = newUuid();
    const proxy = startProxy(producerId);
    await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(0));
    expect(await closeEpoch({ producerId, epoch: proxy.epoch, lastN: [0n, 0n, 0n, 0n] })).toBe(true);
    // A proxy that closes its own epoch still sends a few messages before it ends.
    proxy.report(0n);
    const { heartbeats } = proxy.seen;
    await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(heartbeats + 1));
    expect(proxy.seen.ended).toBeUndefined();
    await sql`UPDATE producers SET ended_at = ended_at - interval '1 minute' WHERE epoch = ${proxy.epoch}`.execute(
      database.db,
    );
    await eventually(() => {
      proxy.report(0n);
      expect(proxy.seen.ended).toMatchObject({
        code: status.FAILED_PRECONDITION,
        details: expect.stringContaining('a copy of it was replayed'),
      });
    });
    const again = startProxy(producerId, proxy.epoch);
    await eventually(() => expect(again.seen.ended?.code).toBe(status.FAILED_PRECONDITION));
  });

  it('is refused if its producer_id is not a UUID', async () => {
    const proxy = startProxy('pod-1');
    await eventually(() => expect(proxy.seen.ended?.code).toBe(status.INVALID_ARGUMENT));
    expect(await producer(proxy.epoch)).toBeUndefined();
  });
});

it('a proxy of an earlier release, which reports no spool, is served', async () => {
  const proxy = startProxy('');
  proxy.report(0n);
  await eventually(() => expect(proxy.seen.heartbeats).toBeGreaterThan(1));
  expect(await producer(proxy.epoch)).toBeUndefined();
  proxy.leave();
});

describe('closing an epoch', () => {
  it.each([
    [4, 1],
    [MAX_USAGE_SHARDS, MAX_USAGE_SHARDS - 1],
  ])('of %i shards succeeds once the ledger has all its events, and not before', async (shards, shard) => {
    const run = { producerId: newUuid(), epoch: newUuid() };
    const lastN = Array.from({ length: shards }, (_, at) => (at === shard ? 2n : 0n));
    const ended = { ...run, lastN };
    expect(await closeEpoch(ended)).toBe(false);
    const received = (firstN: bigint) =>
      recordUsage(database.db, {
        events: [],
        refused: [],
        received: [{ ...run, shard, firstN, count: 1 }],
      });
    await received(2n);
    expect(await closeEpoch(ended)).toBe(false);
    await received(1n);
    expect(await closeEpoch(ended)).toBe(true);
    expect(await producer(run.epoch)).toMatchObject({ state: 'closed' });
  });

  it.each([
    ['ids that are not UUIDs', { producerId: 'a', epoch: 'b', lastN: [0n, 0n, 0n, 0n] }],
    ['numbers of fewer shards', { producerId: newUuid(), epoch: newUuid(), lastN: [0n] }],
    [
      'numbers of more shards than an epoch may have',
      { producerId: newUuid(), epoch: newUuid(), lastN: Array(MAX_USAGE_SHARDS + 1).fill(0n) },
    ],
    [
      'a number that is too large',
      { producerId: newUuid(), epoch: newUuid(), lastN: [0n, 0n, 0n, 2n ** 64n - 1n] },
    ],
  ])('is refused with %s', async (_what, request) => {
    await expect(closeEpoch(request)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    expect(await producer(request.epoch).catch(() => undefined)).toBeUndefined();
  });
});

it('an unfinished response is recorded, found, listed and settled over gRPC', async () => {
  const call = { timeoutMs: 5_000, metadata: tokenMetadata(TOKEN) };
  const { method } = ControlService;
  const response = { responseId: 'resp_1', connectorId: 'con_1', principalId: 'ada' };
  const unfinished = { eventId: newUuid(), model: 'mock/echo', producerId: newUuid() };
  const client = clientOf(0);
  await callUnary(client, method.recordResponse, { ...response, keyId: 'key_1', unfinished }, call);
  expect(await callUnary(clientOf(1), method.findResponse, response, call)).toMatchObject({ unfinished });
  const listed = await callUnary(clientOf(1), method.listUnsettledResponses, unfinished, call);
  expect(listed.responses).toMatchObject([{ ...response, keyId: 'key_1', unfinished }]);
  const settled = await callUnary(client, method.settleResponse, { ...response, usage: { input: 1 } }, call);
  expect(settled.result).toBe(SettleResponseResponse_Result.PENDING);
});
