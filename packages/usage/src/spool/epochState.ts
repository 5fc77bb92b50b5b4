import { USAGE_SHARDS } from '@weighbridge/contracts';
import { AttemptRecord } from './attemptRecord.ts';
import { indexSettled, noNumbers, raiseNumbers, type Segment, widen } from './epochIndex.ts';
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

/** Unsettled attempts by event id, and lease records by key. */
interface LiveRecords {
  readonly unsettled: Map<string, AttemptRecord>;
  readonly leases: Map<string, Buffer>;
}

/** An epoch's state, rebuilt from its records. Without an intact header, it has the shards that records name. */
export class EpochState {
  live: LiveRecords = noRecords();
  readonly lastN: bigint[] = noNumbers(USAGE_SHARDS);
  readonly ackedN: bigint[] = noNumbers(USAGE_SHARDS);
}

function noRecords(): LiveRecords {
  return { unsettled: new Map(), leases: new Map() };
}

/**
 * Applies the records of one segment to the state; segments are loaded oldest first. A segment whose copies are complete
 * replaces what is unsettled: the SETTLEs of earlier intents may be in segments that are deleted.
 */
export class SegmentLoader {
  readonly #state: EpochState;
  readonly #segment: Segment;
  readonly #copied = noRecords();
  /** Copies that are still to come; negative if there are none, or if they are incomplete. */
  #copiesLeft = -1;
  #lastEnd = 0;

  constructor(state: EpochState, segment: Segment) {
    this.#state = state;
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
    else if (type === RecordType.ack) raiseNumbers(this.#state.ackedN, decodeAck(record));
    else this.#applyHeader(record);
    if (this.#copiesLeft === 0) {
      this.#copiesLeft = -1;
      this.#state.live = this.#copied;
    }
  }

  #applyLive(record: Buffer): void {
    addLive(this.#state.live, record);
    addLive(this.#copied, record);
    this.#copiesLeft--;
  }

  #applySettle(record: Buffer): void {
    const { lastN, live } = this.#state;
    const shard = settledShard(record);
    const n = settledN(record);
    indexSettled(this.#segment, shard, n);
    widen(lastN, shard + 1);
    if (n > (lastN[shard] ?? 0n)) lastN[shard] = n;
    live.unsettled.delete(eventIdOf(record));
  }

  #applyHeader(record: Buffer): void {
    const header = decodeHeader(record);
    raiseNumbers(this.#state.lastN, header?.lastN ?? []);
    raiseNumbers(this.#state.ackedN, header?.ackedN ?? []);
    this.#copiesLeft = header?.copies ?? -1;
  }
}

function addLive({ unsettled, leases }: LiveRecords, record: Buffer): void {
  if (recordType(record) === RecordType.intent) {
    const attempt = new AttemptRecord(record, decodeIntent(record));
    unsettled.set(attempt.eventId, attempt);
    return;
  }
  const { key, bytes } = decodeLease(record);
  if (bytes.length > 0) leases.set(key, record);
  else leases.delete(key);
}
