import { fromBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import type { Captured, FaultyNats } from './faultyNats.ts';
import type { SentRequest } from './load.ts';

/** A message in the stream, with its sequence number. */
export interface StreamMessage extends Captured {
  readonly sequence: number;
}

/** Waits until the stream has an event of each of these requests, and returns their messages. No worker may run. */
export async function messagesOf(
  nats: FaultyNats,
  sent: readonly SentRequest[],
): Promise<readonly StreamMessage[]> {
  expect(sent.filter(({ end }) => end !== 'whole')).toEqual([]);
  const numbers = new Set(sent.map(({ number }) => number));
  return await eventually(
    async () => {
      const messages = (await allMessages(nats)).filter((message) =>
        eventsOf(message).some((event) => numbers.has(numberOf(event))),
      );
      const held = new Set(messages.flatMap(eventsOf).map(numberOf));
      expect([...numbers].filter((number) => !held.has(number))).toEqual([]);
      return messages;
    },
    { intervalMs: 100 },
  );
}

/** The usage events in a message. */
export function eventsOf({ payload }: Captured): UsageEvent[] {
  return fromBinary(UsageBatchSchema, payload).events.map((event) => fromBinary(UsageEventSchema, event));
}

/** The number of the request of an event. */
export function numberOf({ attribution }: UsageEvent): string {
  return attribution?.labels.n ?? '';
}

async function allMessages(nats: FaultyNats): Promise<StreamMessage[]> {
  const { messages, lastSequence } = await nats.state();
  const found: StreamMessage[] = [];
  for (let sequence = lastSequence; found.length < messages && sequence > 0; sequence--) {
    const message = await nats.read(sequence).catch(() => undefined);
    if (message) found.unshift({ ...message, sequence });
  }
  return found;
}
