import { join, resolve } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { Outcome, UsageEventSchema } from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import { adoptOrphanedSpools } from './adoptSpools.ts';
import { EpochWriter } from './epochWriter.ts';
import type { FileSystem } from './fileSystem.ts';
import { readEpoch, type StoredEpoch } from './readEpoch.ts';
import { orphanedEpoch } from './spoolEpoch.ts';
import { epochBytes, epochFolders, isAdopted, parseEpochFolder } from './spoolFolder.ts';
import type { SpoolEpoch } from './types.ts';

export interface OrphanRecoveryDeps {
  readonly dir: string;
  readonly producerId: string;
  readonly ownEpoch: string;
  readonly files: FileSystem;
  readonly sync: 'process' | 'disk';
  readonly segmentBytes: number;
  readonly now: () => Date;
  readonly logger: Logger;
  readonly addToDiskUse: (bytes: number) => void;
  readonly onDamage: (records: number) => void;
}

/** Recovers the epochs that earlier runs left in a spool's folder, and those of orphaned spools beside it. */
export class OrphanRecovery {
  readonly #deps: OrphanRecoveryDeps;
  readonly #dir: string;
  /** Folder names of those returned by `take` and not removed yet. */
  readonly #taken = new Set<string>();
  /** By folder name: the size on disk, as last added. */
  readonly #sizes = new Map<string, number>();
  #taking: Promise<void> = Promise.resolve();

  private constructor(deps: OrphanRecoveryDeps) {
    this.#deps = deps;
    this.#dir = resolve(deps.dir);
  }

  static async open(deps: OrphanRecoveryDeps): Promise<OrphanRecovery> {
    const orphans = new OrphanRecovery(deps);
    await orphans.#measure();
    return orphans;
  }

  /** Settles the interrupted attempts of each epoch and returns it, once. */
  take(): Promise<readonly SpoolEpoch[]> {
    const next = this.#taking.then(() => this.#takeNew());
    this.#taking = next.then(
      () => {},
      () => {},
    );
    return next;
  }

  /** Resolves when no `take` is running. */
  idle(): Promise<void> {
    return this.#taking;
  }

  async #measure(): Promise<void> {
    for (const name of await epochFolders(this.#dir)) {
      if (isAdopted(name) || name === this.#deps.ownEpoch) continue;
      const bytes = await epochBytes(join(this.#dir, name));
      this.#sizes.set(name, bytes);
      this.#deps.addToDiskUse(bytes);
    }
  }

  async #takeNew(): Promise<readonly SpoolEpoch[]> {
    const { logger, ownEpoch } = this.#deps;
    await adoptOrphanedSpools(this.#dir, logger);
    const epochs: SpoolEpoch[] = [];
    for (const name of await epochFolders(this.#dir)) {
      if (name === ownEpoch || this.#taken.has(name)) continue;
      try {
        epochs.push(await this.#recover(name));
        this.#taken.add(name);
      } catch (error) {
        const folder = join(this.#dir, name);
        logger.error({ err: error, folder }, 'failed to read an orphaned epoch; retrying');
      }
    }
    return epochs;
  }

  async #recover(name: string): Promise<SpoolEpoch> {
    const deps = this.#deps;
    const { epoch, producerId = deps.producerId } = parseEpochFolder(name);
    const addToDiskUse = (bytes: number) => {
      this.#sizes.set(name, (this.#sizes.get(name) ?? 0) + bytes);
      if (!isAdopted(name)) deps.addToDiskUse(bytes);
    };
    const location = { folder: join(this.#dir, name), epoch, producerId };
    const stored = await readEpoch({ ...deps, addToDiskUse }, location);
    const { index, leases } = stored;
    addToDiskUse(index.segments.reduce((sum, { bytes }) => sum + bytes, 0) - (this.#sizes.get(name) ?? 0));
    await settleInterrupted(stored, deps);
    deps.onDamage(stored.damagedRecords);
    return orphanedEpoch({ ...deps, epoch: index, leases, onRemoved: () => this.#forget(name) });
  }

  #forget(name: string): void {
    this.#taken.delete(name);
    this.#sizes.delete(name);
  }
}

/** Settles the attempts that their process left open. Their cost is unknown, so each is charged its reservation. */
async function settleInterrupted(
  { index, unsettled, leases, nextSeq }: StoredEpoch,
  { files, sync, segmentBytes, now, logger }: OrphanRecoveryDeps,
): Promise<void> {
  if (unsettled.size === 0) return;
  const writer = new EpochWriter({
    epoch: index,
    unsettled,
    leases,
    nextSeq,
    files,
    sync,
    segmentBytes,
    hasRoomForCopies: () => true,
    now,
    logger,
  });
  try {
    for (const attempt of unsettled.values()) {
      writer.write([{ attempt, tail: interruptedTail(attempt.reserveNanoUsd, now()) }]);
    }
    await writer.durable();
  } finally {
    await writer.close();
  }
  const { producerId, epoch } = index;
  const message = 'settled interrupted attempts at their reservations';
  logger.warn({ producerId, epoch, attempts: unsettled.size }, message);
}

function interruptedTail(reserveNanoUsd: bigint, at: Date): Uint8Array {
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, {
      usage: {},
      costNanoUsd: reserveNanoUsd,
      estimated: true,
      outcome: Outcome.INTERRUPTED,
      settledAtMs: BigInt(at.getTime()),
    }),
  );
}
