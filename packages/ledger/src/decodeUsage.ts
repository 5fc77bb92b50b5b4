import { fromBinary } from '@bufbuild/protobuf';
import {
  USAGE_SHARDS,
  type UsageBatch,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import { ledgerEvent } from './ledgerEvent.ts';
import type { IdRange } from './partitions.ts';
import { MAX_EVENTS_PER_TRANSACTION } from './recordUsage.ts';
import type { EventOrigin, LedgerEvent, ReceivedRange, RefusedUsage, UsageToRecord } from './usage.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Far beyond what any proxy counts to, and far below where a bigint ends. */
const MAX_N = 2n ** 53n;

/**
 * A message of the usage stream, decoded and checked: what the ledger takes, and what it refuses. Never throws. A message
 * that does not say whose it is, or cannot be read, is refused whole; of any other each event goes its own way.
 */
export function decodeBatch(payload: Uint8Array, ids: IdRange): UsageToRecord {
  let batch: UsageBatch;
  try {
    batch = fromBinary(UsageBatchSchema, payload);
    checkBatch(batch);
  } catch (error) {
    const reason = reasonOf(error);
    return {
      events: [],
      refused: [{ kind: 'batch', payload, reason, origin: undefined, principalId: undefined }],
      received: [],
    };
  }
  const { producerId, epoch, shard, firstN } = batch;
  const decoded = batch.events.map((event, at) =>
    decodeEvent(event, { producerId, epoch, shard, n: firstN + BigInt(at) }, ids),
  );
  const received: ReceivedRange = { producerId, epoch, shard, firstN, count: batch.events.length };
  return {
    events: decoded.flatMap(({ events }) => events),
    refused: decoded.flatMap(({ refused }) => refused),
    received: [received],
  };
}

/** One event of a message, or of the quarantine, checked: recorded or refused. */
export function decodeEvent(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
): { readonly events: readonly LedgerEvent[]; readonly refused: readonly RefusedUsage[] } {
  let event: UsageEvent | undefined;
  try {
    event = fromBinary(UsageEventSchema, payload);
    return { events: [ledgerEvent(event, origin, ids)], refused: [] };
  } catch (error) {
    const principalId = event && isKept(event.principalId) ? event.principalId : undefined;
    return {
      events: [],
      refused: [{ kind: 'event', payload, reason: reasonOf(error), origin, principalId }],
    };
  }
}

function checkBatch({ producerId, epoch, shard, firstN, events }: UsageBatch): void {
  if (!UUID.test(producerId)) throw new Error('producer_id is not a UUID');
  if (!UUID.test(epoch)) throw new Error('epoch is not a UUID');
  if (shard >= USAGE_SHARDS) throw new Error(`there is no shard ${shard}`);
  if (firstN < 1n || firstN > MAX_N) throw new Error('first_n is out of range');
  if (events.length > MAX_EVENTS_PER_TRANSACTION) {
    throw new Error(`a message holds at most ${MAX_EVENTS_PER_TRANSACTION} events`);
  }
}

/** Whether it may say whose spend a refused event is. */
function isKept(principalId: string): boolean {
  return principalId !== '' && !principalId.includes('\0');
}

/** Of a decoder's error, too: it may quote what it read. */
function reasonOf(error: unknown): string {
  return (error as Error).message.replaceAll('\0', '').slice(0, 500);
}
