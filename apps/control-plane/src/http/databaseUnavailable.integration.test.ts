import { connect, createServer, type Socket } from 'node:net';
import { Client, credentials as channelCredentials, status as grpcStatus, Metadata } from '@grpc/grpc-js';
import { ControlService, callUnary } from '@weighbridge/contracts';
import { createDb, isUnavailable } from '@weighbridge/database';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../test/testApi.ts';
import { loadConfig } from '../config.ts';
import { loadPeppers } from '../features/keys/peppers.ts';
import { listenGrpc } from '../grpc/grpcServer.ts';
import { buildApp } from './app.ts';

type State = 'available' | 'recovering' | 'disconnected';

/** A proxy before Postgres that goes through the states of a failover. */
async function startFailoverProxy(databaseUrl: string) {
  const { hostname, port } = new URL(databaseUrl);
  let state: State = 'available';
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => {}).on('close', () => sockets.delete(client));
    if (state === 'disconnected') return client.destroy();
    if (state === 'recovering') return client.once('data', () => client.end(RECOVERING));
    const upstream = connect(Number(port), hostname);
    upstream.on('error', () => client.destroy()).on('close', () => client.destroy());
    client.on('close', () => upstream.destroy());
    return client.pipe(upstream).pipe(client);
  });
  const listen = (at: number) =>
    new Promise<number>((resolve) =>
      server.listen(at, '127.0.0.1', () => resolve((server.address() as { port: number }).port)),
    );
  const url = new URL(databaseUrl);
  const at = await listen(0);
  url.hostname = '127.0.0.1';
  url.port = String(at);
  const stopListening = async () => {
    const closed = new Promise((resolve) => server.close(resolve));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  return {
    url: url.href,
    set(next: State) {
      state = next;
      for (const socket of sockets) socket.destroy();
    },
    stopListening,
    listenAgain: () => listen(at),
  };
}

/** https://www.postgresql.org/docs/current/protocol-message-formats.html#PROTOCOL-MESSAGE-FORMATS-ERRORRESPONSE */
const RECOVERING = (() => {
  const fields = 'SFATAL\0VFATAL\0C57P03\0Mthe database system is in recovery mode\0\0';
  const message = Buffer.alloc(5 + fields.length);
  message.write('E');
  message.writeInt32BE(4 + fields.length, 1);
  message.write(fields, 5, 'latin1');
  return message;
})();

let api: TestApi;
beforeAll(async () => {
  api = await startTestApi();
});
afterAll(() => api.close());

it('responds with 503 and retry-after while the database is unavailable, to proxies with UNAVAILABLE, and recovers with it', async () => {
  const postgres = await startFailoverProxy(api.databaseUrl);
  const db = createDb(postgres.url, { applicationName: 'test', onIdleError: () => {} });
  const now = () => new Date();
  const logger = createLogger('test');
  logger.level = 'silent';
  const { credentials, upstreamHosts, webhookHosts, maxKeysPerPrincipal } = loadConfig({
    DATABASE_URL: postgres.url,
    CONTROL_PLANE_TOKEN: 'a token that the apps share',
  });
  const peppers = await loadPeppers(api.db, { current: undefined, others: [] }, now());
  const deps = {
    db,
    now,
    peppers,
    logger,
    credentials,
    upstreamHosts,
    webhookHosts,
    maxKeysPerPrincipal,
    feedSource: undefined,
    keyUses: { note: () => {} },
    proxyOverheads: api.proxyOverheads,
  };
  const app = buildApp({ ...deps, metrics: createMetrics(), notReady: () => undefined });
  const listPolicies = async () => {
    const headers = { authorization: `Bearer ${api.operatorKey}` };
    const {
      statusCode,
      headers: responseHeaders,
      body,
    } = await app.inject({ url: '/api/v1/policies', headers });
    const { error } = JSON.parse(body) as { error?: { type: string; code: string } };
    return {
      status: statusCode,
      retryAfter: responseHeaders['retry-after'],
      type: error?.type,
      code: error?.code,
    };
  };
  const watchers = { serve: () => {}, close: async () => {} } as unknown as Parameters<
    typeof listenGrpc
  >[0]['watchers'];
  const server = await listenGrpc(
    {
      ...deps,
      leases: db,
      lookups: db,
      leaseConnections: 6,
      watchers,
      metrics: createMetrics(),
      tracing: undefined,
    },
    { host: '127.0.0.1', port: 0, token: undefined, tls: undefined, acceptsUnsigned: false },
  );
  const proxy = new Client(server.address, channelCredentials.createInsecure());
  /** What a proxy is told of a key that does not exist. */
  const resolve = () =>
    callUnary(
      proxy,
      ControlService.method.resolve,
      { tokenSha256: new Uint8Array(32) },
      { timeoutMs: 30_000, metadata: new Metadata() },
    ).then(
      ({ key }) => key,
      ({ code, details }: { code: number; details: string }) => `${grpcStatus[code]} ${details}`,
    );
  const available = { status: 200, retryAfter: undefined };
  const unavailable = {
    status: 503,
    retryAfter: '1',
    type: 'service_unavailable',
    code: 'database_unavailable',
  };
  expect(await listPolicies()).toMatchObject(available);
  for (const state of ['recovering', 'disconnected'] as const) {
    postgres.set(state);
    expect(await listPolicies(), state).toEqual(unavailable);
    expect(await resolve(), state).toMatch(/^UNAVAILABLE database_unavailable: /);
    postgres.set('available');
    expect(await listPolicies()).toMatchObject(available);
    expect(await resolve()).toBeUndefined();
  }
  await postgres.stopListening();
  expect(await listPolicies()).toEqual(unavailable);
  await postgres.listenAgain();
  expect(await listPolicies()).toMatchObject(available);
  proxy.close();
  await server.close();
  await app.close();
  await db.destroy();
  await postgres.stopListening();
});

describe('an error of an unavailable database', () => {
  const failed = (code: string, rest = {}) => Object.assign(new Error('test'), { code, ...rest });

  it.each([
    '57P01',
    '57P02',
    '57P03',
    '08000',
    '08001',
    '08003',
    '08006',
    '08P01',
    '53300',
    '25P03',
    '25006',
  ])('is SQLSTATE %s', (code) => expect(isUnavailable(failed(code))).toBe(true));
  it.each(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN'])('is %s', (code) =>
    expect(isUnavailable(failed(code))).toBe(true),
  );
  it.each(['23505', '40001', '40P01', '42P01', '57014', '57P04', '22P02', '0800', 'EACCES'])(
    'is not %s',
    (code) => expect(isUnavailable(failed(code))).toBe(false),
  );
  it('is a missing socket, but not a missing file', () => {
    expect(isUnavailable(failed('ENOENT', { syscall: 'connect' }))).toBe(true);
    expect(isUnavailable(failed('ENOENT', { syscall: 'open' }))).toBe(false);
  });
  it.each([undefined, 'ECONNREFUSED', new TypeError('fetch failed', { cause: failed('ECONNREFUSED') })])(
    'is not any other error: %s',
    (error) => expect(isUnavailable(error)).toBe(false),
  );
});
