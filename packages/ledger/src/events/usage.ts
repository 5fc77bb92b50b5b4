import type { UsageEvents } from '@weighbridge/database';
import type { Insertable } from 'kysely';
import type { BucketRef } from '../buckets/bucketRef.ts';

/** Beyond it a transaction gains nothing by being larger, and holds its locks for longer. */
export const MAX_EVENTS_PER_TRANSACTION = 2_000;

/** What the ledger derives from the rest, and what only a correction has. */
type NotOfAnAttempt = 'bucket_keys' | 'provider' | 'kind' | 'corrects' | 'reason';

/** One attempt that was sent to a vendor, or answer that came from the cache, priced. The ledger adds nothing to it and changes nothing in it. */
export interface LedgerEvent {
  readonly row: Omit<Insertable<UsageEvents>, NotOfAnAttempt> & {
    readonly admitted_at: Date;
    readonly settled_at: Date;
    /** JSON. */
    readonly attribution: string;
  };
  /** The counters that it was admitted on, the governing policy's first. */
  readonly buckets: readonly BucketRef[];
  /** What kind of work its caller called it; absent where it did not. */
  readonly workloadType?: WorkloadType | undefined;
}

/** What callers call a kind of work: compared by its hash, and shown cut. */
export interface WorkloadType {
  /** The first 8 bytes of the SHA-256 in hex; '' for what was not given a name. */
  readonly key: string;
  readonly name: string;
}

/** What validation refused, whole, with the reason in words for an operator: nothing that a proxy sent is thrown away. */
export interface RefusedUsage {
  /** One event, or a message that could not be read at all. */
  readonly kind: 'event' | 'batch';
  readonly payload: Uint8Array;
  readonly reason: string;
  /** Which event it is; undefined for a message. */
  readonly origin: EventOrigin | undefined;
  /** Whose spend it is, where that could be read. */
  readonly principalId: string | undefined;
}

/** Who wrote an event: a spool, in one run of its process, as the nth of a shard. */
export interface EventOrigin {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly n: bigint;
}

/** Which ids of events the ledger takes, by the times in them. */
export interface IdRange {
  readonly from: Date;
  /** Does not belong to it. */
  readonly before: Date;
}

/** Numbers that have arrived, counted from `firstN`, whether the events were recorded or refused. */
export interface ReceivedRange {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly firstN: bigint;
  readonly count: number;
}

/** What some messages of the usage stream hold, after validation. */
export interface UsageToRecord {
  readonly events: readonly LedgerEvent[];
  readonly refused: readonly RefusedUsage[];
  readonly received: readonly ReceivedRange[];
}

/** The ledger, or its quarantine, holds every event of the epoch's shard up to and including `n`. */
export interface Ack {
  readonly producerId: string;
  readonly epoch: string;
  readonly shard: number;
  readonly n: bigint;
}
