import type { Logger } from '@weighbridge/runtime';
import type { FileSystem } from './fileSystem.ts';

export interface SpoolOptions {
  readonly dir: string;
  /** What the files of this folder's own producer may take on disk together. */
  readonly maxBytes: number;
  /** When a file is full and the next one begins; 16 MiB, and at most an eighth of `maxBytes`. */
  readonly segmentBytes?: number;
  /** What a record survives: the end of the process, or that of the machine too (see `durable`). */
  readonly sync: 'process' | 'disk';
  readonly newId: () => string;
  readonly now: () => Date;
  readonly logger: Logger;
  readonly files?: FileSystem;
}

/** What has to be written before money is spent, and what was, until the ledger has it. */
export interface Spool {
  readonly producerId: string;
  /** One run of this process, or of an earlier one that came to rest and that this one goes on with. */
  readonly epoch: string;
  readonly isResumed: boolean;
  /** On disk, of the own producer: earlier epochs count, adopted ones do not. */
  readonly usedBytes: number;
  readonly maxBytes: number;
  /** Places in files of earlier epochs that could not be read, since the start. */
  readonly damagedRecords: number;
  /** Whether an attempt whose head has about this size finds room now; false also while the disk fails. */
  hasRoom(headBytes: number): boolean;
  /** Attempts that have no end yet that is written. */
  readonly openAttempts: number;
  /**
   * Throws `SpoolFullError`, or that the disk failed a moment ago. It is written at the end of this turn of the event loop:
   * nothing may be sent before `durable` has resolved.
   */
  begin(intent: Intent): SpooledAttempt;
  /**
   * To be asked in the turn of what was begun or settled: resolves when that is written, and on disk where `sync` is
   * `disk`; undefined where nothing is waited for. Rejects where it could not be written, to a new file neither, or not be
   * brought on disk twice.
   */
  durable(): Promise<void> | undefined;
  /** Writes at once what else is written at the end of the turn: before something leaves that relies on it. */
  flush(): void;
  /** Keeps the latest bytes by key through rotations and crashes; empty bytes forget the key. */
  writeLease(key: string, bytes: Uint8Array): void;
  readonly own: SpoolEpoch;
  /**
   * Epochs that earlier runs left behind, and those of sibling folders that no process holds (they are moved into this
   * folder). Each is handed out once; what can't be read now is tried again at the next call.
   */
  takeOrphanedEpochs(): Promise<readonly SpoolEpoch[]>;
  /**
   * Closes the files and gives up the folder. What is unconfirmed, and who is open, stays for the next start. With `rest`,
   * the next start goes on with this epoch, if nothing in it is open: only where nobody was told that it ended.
   */
  close(how?: { readonly rest: boolean }): Promise<void>;
}

/** What is known of an attempt before it is sent. */
export interface Intent {
  /** At most 255 Latin-1 characters. */
  readonly eventId: string;
  readonly shard: number;
  /** What it is charged if the process does not live to see its end. */
  readonly reserveNanoUsd: bigint;
  /** The first half of its UsageEvent's protobuf. */
  readonly head: Uint8Array;
}

export interface SpooledAttempt {
  readonly eventId: string;
  /** Its beginning could not be written: nobody will ever learn of it. */
  readonly isRefused: boolean;
  /**
   * Has its end written at the end of the turn, once, and with it gets its number: only then `onSettled` is told. Where it
   * can't be written, the attempt stays open: it may be called again, or else the next start settles it at its reserve. Does
   * nothing where the beginning could not be written.
   */
  settle(tail: Uint8Array, onSettled?: (event: SettledEvent) => void): void;
}

export interface SettledEvent {
  readonly shard: number;
  /** From 1 in each epoch and shard, without gaps. */
  readonly n: bigint;
  /** The whole UsageEvent. */
  readonly bytes: Uint8Array;
}

/** What one run of a process settled. */
export interface SpoolEpoch {
  readonly producerId: string;
  readonly epoch: string;
  /** The last number of a shard, 0 where it has none. Final in an epoch that was left behind. */
  lastN(shard: number): bigint;
  ackedN(shard: number): bigint;
  /**
   * Settled events from `fromN` on, at most `maxBytes` of them but at least one; empty where there is none. They are
   * contiguous. The first one's number is above `fromN` only where a damaged file lost what was before it.
   */
  read(shard: number, fromN: bigint, maxBytes: number): Promise<readonly SettledEvent[]>;
  /** The ledger holds everything up to `n`: deletes the files that nobody needs any more. */
  ack(shard: number, n: bigint): void;
  leases(): ReadonlyMap<string, Uint8Array>;
  /** Deletes its folder, whatever is in it: for when the ledger has closed the epoch. */
  remove(): Promise<void>;
}

/** There is no room for what an attempt would leave behind. */
export class SpoolFullError extends Error {
  override readonly name = 'SpoolFullError';
}
