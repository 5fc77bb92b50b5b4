import { EventEmitter } from 'node:events';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import {
  HelloSchema,
  ProxyStatusSchema,
  type WatchRequest,
  WatchRequestSchema,
} from '@weighbridge/contracts';
import { createLogger } from '@weighbridge/runtime';
import { afterEach, expect, it } from 'vitest';
import { EvidenceFeed } from '../evidence/evidenceFeed.ts';
import { ChangeFeed } from './changeFeed.ts';
import type { WatchCall } from './watchedProxy.ts';
import { Watchers } from './watchers.ts';

const logger = createLogger('test');
logger.level = 'silent';

let watchers: Watchers;
let seen: string[] = [];
let told: unknown[] = [];

function startWatchers(registerRun: () => Promise<void>): void {
  seen = [];
  told = [];
  watchers = new Watchers({
    logger,
    now: () => new Date(),
    feed: new ChangeFeed({
      logger,
      readPosition: async () => ({ databaseSystemId: 'db', timeline: 1, revision: 1n }),
      readChanges: async () => ({ changes: [], tables: undefined }),
      readPolicies: async () => [],
      readTables: async () => ({ revision: 1n, rows: [] }),
    }),
    evidence: new EvidenceFeed({ readTypes: async () => [], readStrata: async () => [], nowMs: () => 0 }),
    assertOwn: async () => {},
    recordSeen: async (proxies) => void seen.push(...proxies.map(({ id }) => id)),
    recordGoodbye: async () => {},
    registerRun,
    recordWatermarks: async () => [],
    onKeyUses: () => {},
    onConnectorTested: () => {},
    tellOverheads: async (overheads) => void told.push(...overheads),
    countLive: async () => 1,
    readModelOutputs: async () => [],
    onApplied: () => {},
  });
}
afterEach(() => watchers.close());

/** A stream without a network. */
function openStream() {
  const sent: unknown[] = [];
  let isEnded = false;
  const call = Object.assign(new EventEmitter(), {
    writableNeedDrain: false,
    write: (message: unknown) => void sent.push(message),
    end: () => {
      isEnded = true;
    },
  });
  watchers.serve(call as unknown as WatchCall);
  const hello = create(HelloSchema, { proxyId: 'epoch', producerId: 'spool', name: 'pod' });
  const request: WatchRequest = create(WatchRequestSchema, { message: { case: 'hello', value: hello } });
  return {
    sent,
    isEnded: () => isEnded,
    sendHello: () => call.emit('data', request),
    sendStatus: (status: MessageInitShape<typeof ProxyStatusSchema>) => {
      const value = create(ProxyStatusSchema, status);
      call.emit('data', create(WatchRequestSchema, { message: { case: 'status', value } }));
    },
    disconnect: () => call.emit('close'),
  };
}

it('a greeted proxy is connected and gets a snapshot', async () => {
  startWatchers(async () => {});
  const stream = openStream();
  stream.sendHello();
  await expect.poll(() => stream.sent).toMatchObject([{ message: { case: 'snapshot' } }]);
  expect([watchers.count, seen]).toEqual([1, ['epoch']]);
  stream.disconnect();
  expect(watchers.count).toBe(0);
});

it('a proxy that disconnects while it is greeted does not stay connected', async () => {
  let finishRegistration: (() => void) | undefined;
  startWatchers(
    () =>
      new Promise((resolve) => {
        finishRegistration = resolve;
      }),
  );
  const stream = openStream();
  stream.sendHello();
  await expect.poll(() => finishRegistration).toBeDefined();
  stream.disconnect();
  finishRegistration?.();
  await expect.poll(() => seen).toEqual(['epoch']);
  await new Promise((resolve) => setImmediate(resolve));
  expect([watchers.count, stream.sent]).toEqual([0, []]);
});

it('close ends all streams, including those whose hello has not arrived', async () => {
  startWatchers(async () => {});
  const [silent, greeted] = [openStream(), openStream()];
  greeted.sendHello();
  await expect.poll(() => watchers.count).toBe(1);
  await watchers.close();
  expect([silent.isEnded(), greeted.isEnded(), watchers.count]).toEqual([true, true, 0]);
});

it('tells the overhead that a proxy reports, and none of a proxy that reports none', {
  timeout: 60_000,
}, async () => {
  startWatchers(async () => {});
  const [stream, older] = [openStream(), openStream()];
  older.sendHello();
  stream.sendHello();
  await expect.poll(() => watchers.count).toBe(2);
  older.sendStatus({ appliedRevision: 1n });
  stream.sendStatus({ overhead: { boundsUs: [50], counts: [3n, 1n], windowMs: 9 } });
  const overhead = { proxyId: 'epoch', boundsUs: [50], counts: [3, 1], windowMs: 9 };
  await expect.poll(() => told).toContainEqual(overhead);
  expect(new Set(told.map((one) => JSON.stringify(one))).size).toBe(1);
});
