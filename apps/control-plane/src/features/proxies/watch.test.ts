import { EventEmitter } from 'node:events';
import { createLogger } from '@weighbridge/runtime';
import { eventually } from '@weighbridge/testing';
import { expect, it } from 'vitest';
import { startWatchers } from './watch.ts';

it('a proxy hears of a credential that changed where no revision tells, and of nothing twice', async () => {
  const logger = createLogger('test');
  logger.level = 'silent';
  let credential = 'old';
  let reads = 0;
  const watchers = startWatchers({
    logger,
    pollMs: 5,
    refreshMs: 10,
    readRevision: async () => 7n,
    readSnapshot: async () => {
      reads++;
      return { revision: 7n, connectors: [{ id: 'con_1', credential, prices: { m: { version: 1 } } }] };
    },
  });
  const told: string[] = [];
  const stream = Object.assign(new EventEmitter(), {
    writableNeedDrain: false,
    end: () => {},
    write({ message }: { message: { case: string; value: { connectors: { credential: string }[] } } }) {
      if (message.case === 'snapshot') told.push(message.value.connectors[0]?.credential ?? '');
    },
  });
  watchers.add(stream as unknown as Parameters<typeof watchers.add>[0]);
  stream.emit('data', { message: { case: 'hello', value: { proxyId: 'p', version: '1' } } });
  await eventually(async () => expect(reads).toBeGreaterThan(3), { timeoutMs: 2_000, intervalMs: 5 });
  credential = 'new';
  await eventually(async () => expect(told).toEqual(['old', 'new']), { timeoutMs: 2_000, intervalMs: 5 });
  watchers.close();
});
