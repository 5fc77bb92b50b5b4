import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import {
  readUsageBatch,
  readUsageEvent,
  USAGE_SHARDS,
  type UsageBatchFields,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import { attributionOf, NO_ATTRIBUTION, payerOf } from './eventParts.ts';
import { createKnownParts, type KnownParts } from './knownParts.ts';
import { ledgerEvent } from './ledgerEvent.ts';
import {
  type EventOrigin,
  type IdRange,
  type LedgerEvent,
  MAX_EVENTS_PER_TRANSACTION,
  type RefusedUsage,
  type UsageToRecord,
} from './usage.ts';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Far beyond what any proxy counts to, and far below where a bigint ends. */
const MAX_N = 2n ** 53n;

/**
 * A message of the usage stream, decoded and checked: what the ledger takes, and what it refuses. Never throws. A message
 * that does not say whose it is, or cannot be read, is refused whole; of any other each event goes its own way. Whoever
 * decodes many of them keeps what is known.
 */
export function decodeBatch(
  payload: Uint8Array,
  ids: IdRange,
  known: KnownParts = createKnownParts(),
): UsageToRecord {
  let batch: UsageBatchFields;
  try {
    batch = readUsageBatch(payload) ?? decoded(UsageBatchSchema, payload);
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
  const events: LedgerEvent[] = [];
  const refused: RefusedUsage[] = [];
  let n = firstN;
  for (const event of batch.events) {
    const decoded = decodeOne(event, { producerId, epoch, shard, n }, ids, known);
    if ('row' in decoded) events.push(decoded);
    else refused.push(decoded);
    n++;
  }
  return {
    events,
    refused,
    received: [{ producerId, epoch, shard, firstN, count: batch.events.length }],
  };
}

/** One event of the quarantine, checked: recorded or refused. */
export function decodeEvent(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
): Pick<UsageToRecord, 'events' | 'refused'> {
  const decoded = decodeOne(payload, origin, ids, createKnownParts());
  return 'row' in decoded ? { events: [decoded], refused: [] } : { events: [], refused: [decoded] };
}

function decodeOne(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
  known: KnownParts,
): LedgerEvent | RefusedUsage {
  return decodeInPlace(payload, origin, ids, known) ?? decodeByLibrary(payload, origin, ids);
}

/** Undefined if the library has to decode the event, or to say why the ledger refuses it. */
export function decodeInPlace(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
  known: KnownParts,
): LedgerEvent | undefined {
  const event = readUsageEvent(payload);
  if (!event) return undefined;
  const { bytes, payerStart, payerEnd, attributionStart, attributionEnd } = event;
  try {
    const payer = known.payer(bytes, payerStart, payerEnd);
    const attribution =
      attributionStart === attributionEnd
        ? NO_ATTRIBUTION
        : known.attribution(bytes, attributionStart, attributionEnd);
    return ledgerEvent(event, payer, attribution, origin, ids);
  } catch {
    return undefined;
  }
}

/** Decodes any encoding, and says what is wrong with an invalid event. */
export function decodeByLibrary(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
): LedgerEvent | RefusedUsage {
  let event: UsageEvent | undefined;
  try {
    event = decoded(UsageEventSchema, payload);
    const attribution = event.attribution ? attributionOf(event.attribution) : NO_ATTRIBUTION;
    return ledgerEvent(event, payerOf(event), attribution, origin, ids);
  } catch (error) {
    const principalId = event && isKept(event.principalId) ? event.principalId : undefined;
    return { kind: 'event', payload, reason: reasonOf(error), origin, principalId };
  }
}

function checkBatch({ producerId, epoch, shard, firstN, events }: UsageBatchFields): void {
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

/** In words for an operator: a decoder's own say nothing of what it was to read. */
function decoded<Desc extends DescMessage>(schema: Desc, payload: Uint8Array): MessageShape<Desc> {
  try {
    return fromBinary(schema, payload);
  } catch (error) {
    throw new Error(`it can not be read as a ${schema.name} (${reasonOf(error)})`);
  }
}

/** Of a decoder's error, too: it may quote what it read. */
function reasonOf(error: unknown): string {
  return (error as Error).message.replaceAll('\0', '').slice(0, 500);
}
