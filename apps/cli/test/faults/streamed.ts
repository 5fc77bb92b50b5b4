import { fromBinary } from '@bufbuild/protobuf';
import { UsageBatchSchema, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import type { Captured, FaultyNats } from './faultyNats.ts';
import type { Sent } from './load.ts';

/** A message that the stream holds, and its number there. */
export interface Streamed extends Captured {
  readonly sequence: number;
}

/** Waits until the stream holds an event of each of these requests, which no worker may take, and returns their messages. */
export async function messagesOf(nats: FaultyNats, sent: readonly Sent[]): Promise<readonly Streamed[]> {
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
    { timeoutMs: 30_000, intervalMs: 100 },
  );
}

/** What a message says was used. */
export function eventsOf({ payload }: Captured): UsageEvent[] {
  return fromBinary(UsageBatchSchema, payload).events.map((event) => fromBinary(UsageEventSchema, event));
}

/** Of the request that an event is about. */
export function numberOf({ attribution }: UsageEvent): string {
  return attribution?.labels.n ?? '';
}

async function allMessages(nats: FaultyNats): Promise<Streamed[]> {
  const { messages, lastSequence } = await nats.state();
  const found: Streamed[] = [];
  for (let sequence = lastSequence; found.length < messages && sequence > 0; sequence--) {
    const message = await nats.read(sequence).catch(() => undefined);
    if (message) found.unshift({ ...message, sequence });
  }
  return found;
}
