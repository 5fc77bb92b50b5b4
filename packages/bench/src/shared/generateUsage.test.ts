import { fromBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema, UsageEventSchema } from '@weighbridge/contracts';
import { expect, it } from 'vitest';
import { generateBatches, generateEvents } from './generateUsage.ts';

it('puts each event into one batch, numbered from 1 without gaps by producer and shard', () => {
  const events = generateEvents(2_000, new Date());
  const seen: string[] = [];
  const nextN = new Map<string, number>();
  for (const batch of generateBatches(events, { producers: 30, eventsPerBatch: 4 })) {
    const decoded = fromBinary(UsageBatchSchema, batch.payload);
    const name = `${decoded.producerId}/${decoded.epoch}/${decoded.shard}`;
    expect(decoded.firstN).toBe(BigInt(nextN.get(name) ?? 1));
    nextN.set(name, Number(decoded.firstN) + decoded.events.length);
    seen.push(...decoded.events.map((bytes) => fromBinary(UsageEventSchema, bytes).eventId));
  }
  expect(nextN.size).toBe(30 * 4);
  expect(seen.toSorted()).toEqual(events.map((event) => event.eventId));
  expect(new Set(seen).size).toBe(2_000);
});
