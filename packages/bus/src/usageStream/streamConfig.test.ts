import type { JetStreamManager } from '@nats-io/jetstream';
import { describe, expect, it } from 'vitest';
import { acknowledgedUpTo } from './streamConfig.ts';

/** A server whose consumer has delivered messages up to 683, and whose stream holds these of the shard, by subject. */
function server(consumer: { floor: number; pending: number }, subjects: Readonly<Record<string, number>>) {
  const asked: unknown[] = [];
  const info = {
    ack_floor: { stream_seq: consumer.floor },
    delivered: { stream_seq: 683 },
    num_ack_pending: consumer.pending,
  };
  const manager = {
    consumers: { info: async () => info },
    streams: {
      info: async (_name: string, filter: unknown) => {
        asked.push(filter);
        return { state: { subjects } };
      },
    },
  } as unknown as JetStreamManager;
  return { manager, asked };
}

describe('a shard is acknowledged', () => {
  it('up to the floor of its consumer', async () => {
    const { manager, asked } = server({ floor: 683, pending: 0 }, {});
    expect(await acknowledgedUpTo(manager, 3)).toBe(683n);
    expect(asked).toEqual([]);
  });

  it('up to its oldest message that is not, while the stream has messages of it', async () => {
    const { manager } = server({ floor: 665, pending: 2 }, { 'usage.v2.s3.one': 1 });
    expect(await acknowledgedUpTo(manager, 3)).toBe(665n);
  });

  it('up to what was delivered, if the server awaits an ack of a message that it no longer has', async () => {
    const { manager, asked } = server({ floor: 665, pending: 1 }, {});
    expect(await acknowledgedUpTo(manager, 3)).toBe(683n);
    expect(asked).toEqual([{ subjects_filter: 'usage.v2.s3.*' }]);
  });
});
