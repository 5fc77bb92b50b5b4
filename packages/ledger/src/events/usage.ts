import type { BucketRef, Counts } from '@weighbridge/budget';
import type { UsageEvents } from '@weighbridge/database';
import type { Insertable } from 'kysely';

/** Larger transactions are no faster, and hold their locks longer. */
export const MAX_EVENTS_PER_TRANSACTION = 2_000;

/** Columns that the ledger derives, and columns of corrections. */
type DerivedColumn = 'bucket_keys' | 'provider' | 'kind' | 'corrects' | 'reason';

/** A priced attempt that was sent to a vendor, or a response from the cache. The ledger records it unchanged. */
export interface LedgerEvent {
  readonly row: Omit<Insertable<UsageEvents>, DerivedColumn | 'details'> & {
    readonly admitted_at: Date;
    readonly settled_at: Date;
    /** JSON. */
    readonly attribution: string;
    /** JSON; null if it has none. */
    readonly details?: string | null;
  };
  /** The buckets that it was admitted on, the governing policy's first. */
  readonly buckets: readonly BucketRef[];
  /** What it counts in buckets of requests and of tokens; undefined if it was admitted on none. */
  readonly counts?: Counts | undefined;
  /** Undefined if the caller named none. */
  readonly workloadType?: WorkloadType | undefined;
  /** As its proxy sent it, for the quarantine; undefined if no proxy did. */
  readonly payload?: Uint8Array | undefined;
}

/** A workload type as named by callers: compared by its hash, and shown cut. */
export interface WorkloadType {
  /** The first 8 bytes of the name's SHA-256 in hex; '' if unnamed. */
  readonly key: string;
  readonly name: string;
}

/** Usage that validation refused, stored whole with a reason for operators: nothing that a proxy sent is discarded. */
export interface RefusedUsage {
  /** One event, or a message that could not be decoded. */
  readonly kind: 'event' | 'batch';
  readonly payload: Uint8Array;
  readonly reason: string;
  /** The event's number; undefined for a message. */
  readonly origin: EventOrigin | undefined;
  /** The principal whose spend it is, if it could be decoded. */
  readonly principalId: string | undefined;
  /** Of a message: the producer of the subject that it came on. */
  readonly sentBy?: string | undefined;
}

/** The origin of an event: the nth event of a shard, in an epoch of a producer. */
export interface EventOrigin {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly n: bigint;
}

/** The event ids that the ledger accepts, by the times in them. */
export interface IdRange {
  readonly from: Date;
  /** Exclusive. */
  readonly before: Date;
}

/** `count` event numbers from `firstN` that were received, whether the events were recorded or refused. */
export interface ReceivedRange {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly firstN: bigint;
  readonly count: number;
}

/** The content of messages of the usage stream, after validation. */
export interface UsageToRecord {
  readonly events: readonly LedgerEvent[];
  readonly refused: readonly RefusedUsage[];
  readonly received: readonly ReceivedRange[];
}

/** The ledger or its quarantine has every event of the epoch's shard up to and including `n`. */
export interface Ack {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly n: bigint;
}
