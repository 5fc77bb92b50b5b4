import type { UsageBatch } from '@weighbridge/contracts';
import {
  BYTES,
  endOfBytes,
  readTag,
  readText,
  readUint32,
  readVarint,
  UNUSUAL,
  VARINT,
  type Wire,
  wireOf,
} from './wire.ts';

/** A message of the usage stream. */
export type UsageBatchParts = Pick<UsageBatch, 'producerId' | 'epoch' | 'shard' | 'firstN' | 'events'>;

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };

const EVENTS = 2;

/** What the library makes of a message, sooner; undefined where it is to be asked. Its events are views of the payload. */
export function readBatch(payload: Uint8Array): UsageBatchParts | undefined {
  try {
    return readParts(wireOf(payload));
  } catch {
    return undefined;
  }
}

function readParts(wire: Wire): UsageBatchParts {
  const batch = { producerId: '', events: [] as Uint8Array[], epoch: '', shard: 0, firstN: 0n };
  let last = 0;
  while (wire.at < wire.end) {
    const tag = readTag(wire);
    const field = tag >>> 3;
    if (field < last || (field === last && field !== EVENTS)) throw UNUSUAL;
    if (tag % 8 === BYTES) readBytes(wire, field, batch);
    else if (tag % 8 === VARINT) readNumber(wire, field, batch);
    else throw UNUSUAL;
    last = field;
  }
  return batch;
}

function readBytes(wire: Wire, field: number, batch: Writable<UsageBatchParts>): void {
  switch (field) {
    case 1:
      batch.producerId = readText(wire);
      break;
    case EVENTS: {
      const end = endOfBytes(wire);
      batch.events.push(wire.bytes.subarray(wire.at, end));
      wire.at = end;
      break;
    }
    case 3:
      batch.epoch = readText(wire);
      break;
    default:
      throw UNUSUAL;
  }
}

function readNumber(wire: Wire, field: number, batch: Writable<UsageBatchParts>): void {
  switch (field) {
    case 4:
      batch.shard = readUint32(wire);
      break;
    case 5:
      batch.firstN = BigInt(readVarint(wire));
      break;
    default:
      throw UNUSUAL;
  }
}
