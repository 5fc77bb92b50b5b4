import { create, fromBinary } from '@bufbuild/protobuf';
import { createInProcessUsageStream } from '@weighbridge/bus';
import { UsageBatchSchema, UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { expect, it } from 'vitest';
import { createUsagePublisher } from './usagePublisher.ts';

it('loses an event that the stream never takes, and none of those beside it', async () => {
  const stream = createInProcessUsageStream({ maxBytes: 2_000, onError: () => {} });
  const arrived: string[] = [];
  await stream.consume(0, async (batch) => {
    for (const { payload } of batch) {
      arrived.push(...fromBinary(UsageBatchSchema, payload).events.map((event) => event.requestId));
    }
  });
  const logger = createLogger('test');
  logger.level = 'silent';
  const usage = createUsagePublisher({ stream, producerId: newUuid(), newBatchId: newUuid, logger });
  const event = (requestId: string, bytes: number) =>
    create(UsageEventSchema, { eventId: newUuid(), requestId, responseId: 'x'.repeat(bytes) });
  for (const [name, bytes] of [
    ['a', 900],
    ['large', 3_000],
    ['b', 900],
  ] as const) {
    usage.publish(event(name, bytes));
  }
  await expect.poll(() => arrived).toEqual(['a', 'b']);
  usage.publish(event('later', 10));
  await expect.poll(() => arrived).toEqual(['a', 'b', 'later']);
  expect(usage.waitingBytes).toBe(0);
  await expect(usage.close(1_000)).rejects.toThrow('1 usage events could not be handed over and are lost');
  await stream.close();
});
