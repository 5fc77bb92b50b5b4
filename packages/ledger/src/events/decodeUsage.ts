import { type DescMessage, fromBinary, type MessageShape } from '@bufbuild/protobuf';
import {
  MAX_USAGE_SHARDS,
  UsageBatchSchema,
  type UsageEvent,
  UsageEventSchema,
} from '@weighbridge/contracts';
import {
  type BatchProof,
  batchProof,
  readUsageBatch,
  readUsageEvent,
  type UsageBatchFields,
} from '@weighbridge/usage';
import { createDecodeCache, type DecodeCache } from './decodeCache.ts';
import { attributionOf, NO_ATTRIBUTION, payerOf } from './eventParts.ts';
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
/** More than any proxy writes, and far below the maximum of a bigint column. */
const MAX_N = 2n ** 53n;

/** A message of the usage stream, decoded. */
export interface DecodedBatch extends UsageToRecord {
  /** Undefined if it could not be decoded. Nothing of a `forged` message is decoded. */
  readonly proof: BatchProof | undefined;
  /** Where it says that it comes from, if it could be decoded. */
  readonly source: Pick<EventOrigin, 'producerId' | 'epoch' | 'shard'> | undefined;
}

/**
 * Decodes and validates a message of the usage stream. Never throws. A message that can't be decoded, or has no valid producer,
 * is refused as a whole, and so is one that names another producer than `sentBy`; otherwise each event is accepted or refused by
 * itself. Pass a cache to decode many messages.
 */
export function decodeBatch(
  payload: Uint8Array,
  ids: IdRange,
  cache: DecodeCache = createDecodeCache(),
  sentBy?: string,
): DecodedBatch {
  let batch: UsageBatchFields;
  let proof: BatchProof | undefined;
  try {
    batch = readUsageBatch(payload) ?? decodeMessage(UsageBatchSchema, payload);
    checkBatch(batch);
    proof = batchProof(payload, batch);
    if (proof === 'forged') return { events: [], refused: [], received: [], proof, source: sourceOf(batch) };
    checkSender(batch, sentBy);
  } catch (error) {
    const reason = reasonOf(error);
    return {
      events: [],
      refused: [
        { kind: 'batch', payload, reason, origin: undefined, principalId: undefined, sentBy: uuidOf(sentBy) },
      ],
      received: [],
      proof: undefined,
      source: undefined,
    };
  }
  const { producerId, epoch, shard, firstN } = batch;
  const events: LedgerEvent[] = [];
  const refused: RefusedUsage[] = [];
  let n = firstN;
  for (const event of batch.events) {
    const decoded = decodeOne(event, { producerId, epoch, shard, n }, ids, cache);
    if ('row' in decoded) events.push(decoded);
    else refused.push(decoded);
    n++;
  }
  return {
    events,
    refused,
    received: [{ producerId, epoch, shard, firstN, count: batch.events.length }],
    proof,
    source: sourceOf(batch),
  };
}

function sourceOf({ producerId, epoch, shard }: UsageBatchFields): DecodedBatch['source'] {
  return { producerId, epoch, shard };
}

/** Decodes and validates one event of the quarantine. */
export function decodeEvent(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
): Pick<UsageToRecord, 'events' | 'refused'> {
  const decoded = decodeOne(payload, origin, ids, createDecodeCache());
  return 'row' in decoded ? { events: [decoded], refused: [] } : { events: [], refused: [decoded] };
}

function decodeOne(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
  cache: DecodeCache,
): LedgerEvent | RefusedUsage {
  return decodeInPlace(payload, origin, ids, cache) ?? decodeByLibrary(payload, origin, ids);
}

/** Undefined if the library has to decode the event, or to say why the ledger refuses it. */
export function decodeInPlace(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
  cache: DecodeCache,
): LedgerEvent | undefined {
  const event = readUsageEvent(payload);
  if (!event) return undefined;
  const { bytes, payerStart, payerEnd, attributionStart, attributionEnd } = event;
  try {
    const payer = cache.payer(bytes, payerStart, payerEnd);
    const attribution =
      attributionStart === attributionEnd
        ? NO_ATTRIBUTION
        : cache.attribution(bytes, attributionStart, attributionEnd);
    return ledgerEvent(event, payer, attribution, origin, ids, payload);
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
    event = decodeMessage(UsageEventSchema, payload);
    const attribution = event.attribution ? attributionOf(event.attribution) : NO_ATTRIBUTION;
    return ledgerEvent(event, payerOf(event), attribution, origin, ids, payload);
  } catch (error) {
    const principalId = event && isStorable(event.principalId) ? event.principalId : undefined;
    return { kind: 'event', payload, reason: reasonOf(error), origin, principalId };
  }
}

function checkBatch({ producerId, epoch, shard, firstN, events }: UsageBatchFields): void {
  if (!UUID.test(producerId)) throw new Error('producer_id is not a UUID');
  if (!UUID.test(epoch)) throw new Error('epoch is not a UUID');
  if (shard >= MAX_USAGE_SHARDS) throw new Error(`shard ${shard} does not exist`);
  if (firstN < 1n || firstN > MAX_N) throw new Error('first_n is out of range');
  if (events.length > MAX_EVENTS_PER_TRANSACTION) {
    throw new Error(`a message may contain at most ${MAX_EVENTS_PER_TRANSACTION} events`);
  }
}

/** Where each proxy has its own NATS user, only its own subjects are open to it. */
function checkSender({ producerId }: UsageBatchFields, sentBy: string | undefined): void {
  if (sentBy === undefined || sentBy === producerId) return;
  throw new Error(`producer_id is ${producerId}, but the message came on the subject of ${sentBy}`);
}

/** As it can be stored. No producer has the last one's id, so that what came there is refused again when it is released. */
function uuidOf(sentBy: string | undefined): string | undefined {
  return sentBy === undefined || UUID.test(sentBy) ? sentBy : '00000000-0000-0000-0000-000000000000';
}

/** Whether the id of a refused event's principal can be stored. */
function isStorable(principalId: string): boolean {
  return principalId !== '' && !principalId.includes('\0');
}

/** The library's own message does not name what it tried to decode. */
function decodeMessage<Desc extends DescMessage>(schema: Desc, payload: Uint8Array): MessageShape<Desc> {
  try {
    return fromBinary(schema, payload);
  } catch (error) {
    throw new Error(`cannot be decoded as a ${schema.name} (${reasonOf(error)})`);
  }
}

/** Cut and without NUL, since the library's message may quote the payload. */
function reasonOf(error: unknown): string {
  return (error as Error).message.replaceAll('\0', '').slice(0, 500);
}
