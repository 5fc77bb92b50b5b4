import { raiseNumbers } from './epochIndex.ts';
import type { OpenIntent } from './epochWriter.ts';
import {
  decodeAck,
  decodeHeader,
  decodeIntent,
  decodeLease,
  eventIdOf,
  RecordType,
  recordType,
  settledN,
  settledShard,
} from './recordFormat.ts';
import { indexSettled, perShard, type Segment } from './segment.ts';

/** Open intents by event id, and lease records by key. */
interface LiveRecords {
  readonly open: Map<string, OpenIntent>;
  readonly leases: Map<string, Buffer>;
}

/**
 * Rebuilds an epoch's state from its records, segment by segment. A segment whose copies are complete replaces what is
 * open: the SETTLEs of earlier intents may be in segments that are deleted.
 */
export class EpochReplay {
  live: LiveRecords = noRecords();
  readonly lastN: bigint[] = perShard(0n);
  readonly ackedN: bigint[] = perShard(0n);
}

function noRecords(): LiveRecords {
  return { open: new Map(), leases: new Map() };
}

export class SegmentReplay {
  readonly #replay: EpochReplay;
  readonly #segment: Segment;
  readonly #copied = noRecords();
  /** Copies that are still to come; negative if there are none, or if they are incomplete. */
  #copiesLeft = -1;
  #lastEnd = 0;

  constructor(replay: EpochReplay, segment: Segment) {
    this.#replay = replay;
    this.#segment = segment;
  }

  /** Takes the segment's next intact record; `record` is a view that is valid during the call. */
  apply(record: Buffer, end: number): void {
    const type = recordType(record);
    const isCopy = type === RecordType.intent || type === RecordType.lease;
    const isContiguous = end - record.length === this.#lastEnd;
    if (!isContiguous || (this.#copiesLeft > 0 && !isCopy)) this.#copiesLeft = -1;
    this.#lastEnd = end;
    if (isCopy) this.#applyLive(Buffer.from(record));
    else if (type === RecordType.settle) this.#applySettle(record);
    else if (type === RecordType.ack) raiseNumbers(this.#replay.ackedN, decodeAck(record));
    else this.#applyHeader(record);
    if (this.#copiesLeft === 0) {
      this.#copiesLeft = -1;
      this.#replay.live = this.#copied;
    }
  }

  #applyLive(record: Buffer): void {
    addLive(this.#replay.live, record);
    addLive(this.#copied, record);
    this.#copiesLeft--;
  }

  #applySettle(record: Buffer): void {
    const { lastN, live } = this.#replay;
    const shard = settledShard(record);
    const n = settledN(record);
    indexSettled(this.#segment, shard, n);
    if (n > (lastN[shard] ?? 0n)) lastN[shard] = n;
    live.open.delete(eventIdOf(record));
  }

  #applyHeader(record: Buffer): void {
    const header = decodeHeader(record);
    raiseNumbers(this.#replay.lastN, header?.lastN ?? []);
    raiseNumbers(this.#replay.ackedN, header?.ackedN ?? []);
    this.#copiesLeft = header?.copies ?? -1;
  }
}

function addLive({ open, leases }: LiveRecords, record: Buffer): void {
  if (recordType(record) === RecordType.intent) {
    const intent = { ...decodeIntent(record), record, slot: -1 };
    open.set(intent.eventId, intent);
    return;
  }
  const { key, bytes } = decodeLease(record);
  if (bytes.length > 0) leases.set(key, record);
  else leases.delete(key);
}
