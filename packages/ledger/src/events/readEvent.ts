import { NO_ATTRIBUTION } from './eventParts.ts';
import type { KnownParts } from './knownParts.ts';
import { type EventFields, ledgerEvent, type TokenFields } from './ledgerEvent.ts';
import type { EventOrigin, IdRange, LedgerEvent } from './usage.ts';
import {
  BYTES,
  endOfBytes,
  readBool,
  readEnum,
  readTag,
  readText,
  readUint32,
  readVarint,
  skip,
  UNUSUAL,
  VARINT,
  type Wire,
  wireOf,
} from './wire.ts';

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

/** From the key's id to the connector's: who pays, and for what. */
const FIRST_OF_PAYER = 3;
const LAST_OF_PAYER = 8;
/** A bit for each of them. */
const PAYER = (1 << (LAST_OF_PAYER + 1)) - (1 << FIRST_OF_PAYER);
/** The only field that may come more than once. */
const BUCKETS = 5;
const ATTRIBUTION = 20;
/** A proxy of a later release may write more of them. */
const LAST_KNOWN = 25;

/**
 * An event straight from its encoding: what the library and `ledgerEvent` make of it, for a fraction of what they cost.
 * Undefined where they are to be asked. Each field that is there has to stand once, in any order, and those that say who
 * pays one after the other, as proxies write them; and why the ledger refuses an event is theirs to say.
 */
export function readEvent(
  payload: Uint8Array,
  origin: EventOrigin | undefined,
  ids: IdRange,
  known: KnownParts,
): LedgerEvent | undefined {
  try {
    return readFields(wireOf(payload), origin, ids, known);
  } catch {
    return undefined;
  }
}

function readFields(
  wire: Wire,
  origin: EventOrigin | undefined,
  ids: IdRange,
  known: KnownParts,
): LedgerEvent {
  const event = noEvent();
  let attribution = NO_ATTRIBUTION;
  let payerStart = wire.at;
  let payerEnd = wire.at;
  let seen = 0;
  while (wire.at < wire.end) {
    const start = wire.at;
    const tag = readTag(wire);
    const field = tag >>> 3;
    const isPayers = field >= FIRST_OF_PAYER && field <= LAST_OF_PAYER;
    if (field <= LAST_KNOWN) {
      if (isIn(seen, field) && field !== BUCKETS) throw UNUSUAL;
      if (isPayers && start !== payerEnd && (seen & PAYER) !== 0) throw UNUSUAL;
      if (isPayers && (seen & PAYER) === 0) payerStart = start;
      seen |= 1 << field;
    }
    if (field > LAST_KNOWN) skip(wire, tag);
    else if (tag % 8 === VARINT) readNumber(wire, field, event);
    else if (tag % 8 !== BYTES) throw UNUSUAL;
    else if (isPayers) {
      payerEnd = endOfBytes(wire);
      wire.at = payerEnd;
    } else if (field === ATTRIBUTION) {
      const end = endOfBytes(wire);
      attribution = known.attribution(wire.bytes, wire.at, end);
      wire.at = end;
    } else readBytes(wire, field, event);
  }
  return ledgerEvent(event, known.payer(wire.bytes, payerStart, payerEnd), attribution, origin, ids);
}

function isIn(fields: number, field: number): boolean {
  return (fields & (1 << field)) !== 0;
}

function readBytes(wire: Wire, field: number, event: Writable<EventFields>): void {
  switch (field) {
    case 1:
      event.eventId = readText(wire);
      break;
    case 2:
      event.requestId = readText(wire);
      break;
    case 9:
      event.usage = readTokens(wire, endOfBytes(wire));
      break;
    case 21:
      event.responseId = readText(wire);
      break;
    default:
      throw UNUSUAL;
  }
}

function readNumber(wire: Wire, field: number, event: Writable<EventFields>): void {
  switch (field) {
    case 10:
      event.costNanoUsd = BigInt(readVarint(wire));
      break;
    case 11:
      event.priceVersion = readUint32(wire);
      break;
    case 12:
      event.estimated = readBool(wire);
      break;
    case 13:
      event.outcome = readEnum(wire);
      break;
    case 14:
      event.httpStatus = readUint32(wire);
      break;
    case 15:
      event.streamed = readBool(wire);
      break;
    case 16:
      event.admittedAtMs = readVarint(wire);
      break;
    case 17:
      event.settledAtMs = readVarint(wire);
      break;
    case 18:
      event.firstByteUs = readUint32(wire);
      break;
    case 19:
      event.durationUs = readUint32(wire);
      break;
    case 22:
      event.priceSource = readEnum(wire);
      break;
    case 23:
      event.attempt = readUint32(wire);
      break;
    case 24:
      event.modelAttempt = readUint32(wire);
      break;
    case 25:
      event.cacheHit = readBool(wire);
      break;
    default:
      throw UNUSUAL;
  }
}

/** Their fields are numbered in the order of these names. */
function readTokens(wire: Wire, end: number): TokenFields {
  const counts = [0, 0, 0, 0, 0];
  let last = 0;
  while (wire.at < end) {
    const tag = readTag(wire);
    const field = tag >>> 3;
    if (field <= last || field > counts.length || tag % 8 !== VARINT) throw UNUSUAL;
    counts[field - 1] = readUint32(wire);
    last = field;
  }
  if (wire.at !== end) throw UNUSUAL;
  const [input = 0, cacheRead = 0, cacheWrite = 0, cacheWrite1h = 0, output = 0] = counts;
  return { input, cacheRead, cacheWrite, cacheWrite1h, output };
}

/** What an encoding without any field says. */
function noEvent(): Writable<EventFields> {
  return {
    eventId: '',
    requestId: '',
    usage: undefined,
    costNanoUsd: 0n,
    priceVersion: 0,
    estimated: false,
    outcome: 0,
    httpStatus: 0,
    streamed: false,
    admittedAtMs: 0,
    settledAtMs: 0,
    firstByteUs: undefined,
    durationUs: 0,
    responseId: '',
    priceSource: 0,
    attempt: 0,
    modelAttempt: 0,
    cacheHit: false,
  };
}
