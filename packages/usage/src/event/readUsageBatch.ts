import type { UsageBatch } from '@weighbridge/contracts';
import { byTag, USAGE_BATCH_TAG } from './fields.ts';
import { ProtoReader, UNSUPPORTED_ENCODING } from './protoReader.ts';

/** A message of the usage stream. */
export type UsageBatchFields = Pick<
  UsageBatch,
  'producerId' | 'epoch' | 'shard' | 'firstN' | 'events' | 'publicKey' | 'signature'
>;

const NO_BYTES = Buffer.alloc(0);

type Writable<T> = { -readonly [Name in keyof T]: T[Name] };
type FieldReader = (reader: ProtoReader, batch: Writable<UsageBatchFields>) => void;

const READERS = byTag<keyof typeof USAGE_BATCH_TAG, FieldReader>(USAGE_BATCH_TAG, {
  producerId: (reader, batch) => {
    batch.producerId = reader.text();
  },
  events: (reader, batch) => {
    batch.events.push(reader.subarray());
  },
  epoch: (reader, batch) => {
    batch.epoch = reader.text();
  },
  shard: (reader, batch) => {
    batch.shard = reader.uint32();
  },
  firstN: (reader, batch) => {
    batch.firstN = BigInt(reader.varint());
  },
  publicKey: (reader, batch) => {
    batch.publicKey = reader.subarray();
  },
  signature: (reader, batch) => {
    batch.signature = reader.subarray();
  },
});

/**
 * Reads a batch for a fraction of the library's cost; undefined if the library has to read it. The fields have to be in
 * ascending order, as proxies write them. The events are views of the payload.
 */
export function readUsageBatch(payload: Uint8Array): UsageBatchFields | undefined {
  try {
    return readFields(new ProtoReader(payload));
  } catch {
    return undefined;
  }
}

function readFields(reader: ProtoReader): UsageBatchFields {
  const batch: Writable<UsageBatchFields> = {
    producerId: '',
    events: [],
    epoch: '',
    shard: 0,
    firstN: 0n,
    publicKey: NO_BYTES,
    signature: NO_BYTES,
  };
  let last = 0;
  while (reader.at < reader.end) {
    const tag = reader.tag();
    if (tag < last || (tag === last && tag !== USAGE_BATCH_TAG.events)) throw UNSUPPORTED_ENCODING;
    const read = READERS[tag];
    if (!read) throw UNSUPPORTED_ENCODING;
    read(reader, batch);
    last = tag;
  }
  return batch;
}
