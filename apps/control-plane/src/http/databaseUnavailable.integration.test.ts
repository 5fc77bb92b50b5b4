import { connect, createServer, type Socket } from 'node:net';
import { createDb, isUnavailable } from '@weighbridge/database';
import { createLogger, createMetrics } from '@weighbridge/runtime';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startTestApi, type TestApi } from '../../test/testApi.ts';
import { loadConfig } from '../config.ts';
import { loadPeppers } from '../features/keys/peppers.ts';
import { buildApp } from './app.ts';

type Mood = 'well' | 'recovering' | 'cut';

/** Postgres, as far as a client can tell, on its way through what a failover does to it. */
async function startMoodyPostgres(databaseUrl: string) {
  const { hostname, port } = new URL(databaseUrl);
  let mood: Mood = 'well';
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    sockets.add(client);
    client.on('error', () => {}).on('close', () => sockets.delete(client));
    if (mood === 'cut') return client.destroy();
    if (mood === 'recovering') return client.once('data', () => client.end(RECOVERING));
    const behind = connect(Number(port), hostname);
    behind.on('error', () => client.destroy()).on('close', () => client.destroy());
    client.on('close', () => behind.destroy());
    return client.pipe(behind).pipe(client);
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
    set(next: Mood) {
      mood = next;
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

it('answers 503 with retry-after while there is no database to ask, and as ever once there is', async () => {
  const postgres = await startMoodyPostgres(api.databaseUrl);
  const db = createDb(postgres.url, { applicationName: 'test', onIdleError: () => {} });
  const now = () => new Date();
  const logger = createLogger('test');
  logger.level = 'silent';
  const { credentials, upstreamHosts } = loadConfig({ DATABASE_URL: postgres.url });
  const peppers = await loadPeppers(api.db, { current: undefined, others: [] }, now());
  const deps = { db, now, peppers, logger, credentials, upstreamHosts };
  const app = buildApp({ ...deps, metrics: createMetrics(), notReady: () => undefined });
  const ask = async () => {
    const headers = { authorization: `Bearer ${api.operatorKey}` };
    const { statusCode, headers: answered, body } = await app.inject({ url: '/api/v1/policies', headers });
    const { error } = JSON.parse(body) as { error?: { type: string; code: string } };
    return { status: statusCode, retryAfter: answered['retry-after'], type: error?.type, code: error?.code };
  };
  const well = { status: 200, retryAfter: undefined };
  const away = {
    status: 503,
    retryAfter: '1',
    type: 'service_unavailable',
    code: 'database_unavailable',
  };
  expect(await ask()).toMatchObject(well);
  for (const mood of ['recovering', 'cut'] as const) {
    postgres.set(mood);
    expect(await ask(), mood).toEqual(away);
    postgres.set('well');
    expect(await ask()).toMatchObject(well);
  }
  await postgres.stopListening();
  expect(await ask()).toEqual(away);
  await postgres.listenAgain();
  expect(await ask()).toMatchObject(well);
  await app.close();
  await db.destroy();
  await postgres.stopListening();
}, 30_000);

describe('what says that there is no database to ask', () => {
  const failed = (code: string, rest = {}) => Object.assign(new Error('as it was put'), { code, ...rest });

  it.each(['57P01', '57P02', '57P03', '08000', '08001', '08003', '08006', '08P01', '53300', '25006'])(
    'is SQLSTATE %s',
    (code) => expect(isUnavailable(failed(code))).toBe(true),
  );
  it.each(['ECONNREFUSED', 'ECONNRESET', 'EPIPE', 'ETIMEDOUT', 'EAI_AGAIN'])('is %s', (code) =>
    expect(isUnavailable(failed(code))).toBe(true),
  );
  it.each(['23505', '40001', '40P01', '42P01', '57014', '57P04', '22P02', '0800', 'EACCES'])(
    'is not %s',
    (code) => expect(isUnavailable(failed(code))).toBe(false),
  );
  it('is a socket that is not there, and not a file', () => {
    expect(isUnavailable(failed('ENOENT', { syscall: 'connect' }))).toBe(true);
    expect(isUnavailable(failed('ENOENT', { syscall: 'open' }))).toBe(false);
  });
  it.each([undefined, 'ECONNREFUSED', new TypeError('fetch failed', { cause: failed('ECONNREFUSED') })])(
    'is nothing that others failed with: %s',
    (error) => expect(isUnavailable(error)).toBe(false),
  );
});
