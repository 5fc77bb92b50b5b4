import type { ProducerKey } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { AttemptRecord, Intent } from './attemptRecord.ts';
import type { FileSystem } from './fileSystem.ts';

export interface SpoolOptions {
  readonly dir: string;
  /** The most bytes that this producer's own files may take on disk together. */
  readonly maxBytes: number;
  /** The size at which a segment is full; default 16 MiB, capped at an eighth of `maxBytes`. */
  readonly segmentBytes?: number;
  /** `process`: a record survives a crash of the process; `disk`: also of the machine (fsync, slower). */
  readonly sync: 'process' | 'disk';
  /** How many shards a new epoch declares; default `USAGE_SHARDS`. */
  readonly shards?: number;
  readonly newId: () => string;
  readonly now: () => Date;
  readonly logger: Logger;
  readonly files?: FileSystem;
}

/** A write-ahead log of attempts: written before money is spent, stored until the ledger has it. */
export interface Spool {
  readonly producerId: string;
  /** The id of this run, or of an earlier run that was suspended and that this one continues. */
  readonly epoch: string;
  readonly isResumed: boolean;
  /** How many shards its epoch has. */
  readonly shards: number;
  /** Bytes on disk of this producer's epochs, earlier ones included, adopted ones not. */
  readonly usedBytes: number;
  readonly maxBytes: number;
  /** Unreadable places found in files of earlier epochs since the start. */
  readonly damagedRecords: number;
  /** Whether an attempt with a head of about this size, else of the usual size, fits now; false also while the disk fails. */
  hasRoom(headBytes?: number): boolean;
  /** Attempts whose end is not written yet. */
  readonly openAttempts: number;
  /** Whether what is written counts as durable: `sync` is `process`. */
  readonly isDurableOnceWritten: boolean;
  /**
   * Queues the INTENT of an attempt, to be written at the end of this turn of the event loop: nothing may be sent before
   * `durable` resolves or, if `isDurableOnceWritten`, `writeIntent` returns. Throws `SpoolFullError`, and an error while the disk has just failed.
   */
  begin(intent: Intent): AttemptRecord;
  /**
   * Call it in the turn of `begin` or `settle`. Resolves when their records are written, and on disk if `sync` is
   * `disk`; undefined if nothing is pending. Rejects if they could neither be written nor written to a new file,
   * or if two syncs failed.
   */
  durable(): Promise<void> | undefined;
  /** Calls `listener` with each event once it is written and numbered. There is one listener, the sender. */
  onSettled(listener: (event: SettledEvent) => void): void;
  /** Writes pending records now rather than at the end of the turn. */
  flush(): void;
  /** Persists the latest bytes of a key through rotations and crashes; empty bytes delete the key. */
  writeLease(key: string, bytes: Uint8Array): void;
  readonly own: SpoolEpoch;
  /**
   * Epochs of earlier runs, and of sibling folders that no process holds (these are moved into this folder). Returns each
   * one once; one that can't be read is tried again at the next call.
   */
  takeOrphanedEpochs(): Promise<readonly SpoolEpoch[]>;
  /**
   * Closes the files and releases the folder. Unacked events and open attempts stay for the next start. With `suspend`, the
   * next start continues this epoch if it has no open attempts: use it only if the control plane was not told of its end.
   */
  close(how?: { readonly suspend: boolean }): Promise<void>;
}

/** What attempts use of the spool: they are recorded before they cost anything, and from here their usage reaches the ledger. */
export type UsageLog = Pick<
  Spool,
  'hasRoom' | 'begin' | 'durable' | 'isDurableOnceWritten' | 'openAttempts' | 'shards'
>;

export interface SettledEvent {
  readonly shard: number;
  /** Sequence number, from 1 in each epoch and shard, without gaps. */
  readonly n: bigint;
  /** The complete UsageEvent. */
  readonly bytes: Uint8Array;
}

/** The settled events of one epoch; its states are described in spoolEpoch.ts. */
export interface SpoolEpoch {
  readonly producerId: string;
  /** Signs its batches; undefined if the producer is of an older release, or its key is lost. */
  readonly key: ProducerKey | undefined;
  readonly epoch: string;
  /** How many shards it declared when it began. */
  readonly shards: number;
  /** The last number of a shard, 0 if it has none. Final for an orphaned epoch. */
  lastN(shard: number): bigint;
  /** The ledger has every event up to this number. */
  ackedN(shard: number): bigint;
  /**
   * Settled events from `fromN` on, contiguous: at most `maxBytes`, but at least one; empty if there is none. The first
   * number is above `fromN` only if a damaged file lost the events in between.
   */
  read(shard: number, fromN: bigint, maxBytes: number): Promise<readonly SettledEvent[]>;
  /** The ledger has everything up to `n`: deletes the files that are no longer needed. */
  ack(shard: number, n: bigint): void;
  leases(): ReadonlyMap<string, Uint8Array>;
  /** Deletes the epoch's folder with everything in it. Call it once the ledger has closed the epoch. */
  remove(): Promise<void>;
}

/** The spool has no space for another attempt. */
export class SpoolFullError extends Error {
  override readonly name = 'SpoolFullError';
}
