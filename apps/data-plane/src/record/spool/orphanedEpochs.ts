import { readdir, readFile, rename } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { Outcome, UsageEventSchema } from '@weighbridge/contracts';
import { type Logger, lockFolder } from '@weighbridge/runtime';
import { createEpochWriter } from './epochWriter.ts';
import type { FileSystem } from './fileSystem.ts';
import { epochBytes, recoverEpoch } from './recoverEpoch.ts';
import { endedEpoch } from './spoolEpoch.ts';
import type { SpoolEpoch } from './types.ts';

export interface OrphanedEpochsDeps {
  readonly dir: string;
  readonly producerId: string;
  readonly ownEpoch: string;
  readonly files: FileSystem;
  readonly sync: 'process' | 'disk';
  readonly segmentBytes: number;
  readonly now: () => Date;
  readonly logger: Logger;
  readonly account: (bytes: number) => void;
  readonly onDamage: (records: number) => void;
}

/** What another process answers that holds a folder for a moment, to take over its epochs. */
export const ADOPTING = 'adopting';

export const PRODUCER_FILE = 'producer';
const UUID = '[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}';
const UUID_ONLY = new RegExp(`^${UUID}$`);
/** An epoch's folder; an adopted one's name says its producer as well. */
const EPOCH_FOLDER = new RegExp(`^(${UUID})(?:@(${UUID}))?$`);

export interface OrphanedEpochs {
  /** Settles what is open in them, and hands each out once. */
  take(): Promise<readonly SpoolEpoch[]>;
  /** Resolves when no take is under way. */
  idle(): Promise<void>;
}

export async function openOrphanedEpochs(deps: OrphanedEpochsDeps): Promise<OrphanedEpochs> {
  const dir = resolve(deps.dir);
  const taken = new Set<string>();
  /** What each takes on disk, as far as is known. */
  const sizes = new Map<string, number>();
  let taking: Promise<void> = Promise.resolve();
  for (const name of await epochFolders(dir)) {
    if (isAdopted(name) || name === deps.ownEpoch) continue;
    sizes.set(name, await epochBytes(join(dir, name)));
    deps.account(sizes.get(name) ?? 0);
  }

  async function take(): Promise<readonly SpoolEpoch[]> {
    await adoptSiblings(dir, deps);
    const found: SpoolEpoch[] = [];
    for (const name of await epochFolders(dir)) {
      if (name === deps.ownEpoch || taken.has(name)) continue;
      try {
        found.push(await open(name));
        taken.add(name);
      } catch (error) {
        deps.logger.error(
          { err: error, folder: join(dir, name) },
          'an earlier epoch could not be read; trying again',
        );
      }
    }
    return found;
  }

  async function open(name: string): Promise<SpoolEpoch> {
    const [, epoch = '', producerId = deps.producerId] = EPOCH_FOLDER.exec(name) ?? [];
    const account = (bytes: number) => {
      sizes.set(name, (sizes.get(name) ?? 0) + bytes);
      if (!isAdopted(name)) deps.account(bytes);
    };
    const place = { folder: join(dir, name), epoch, producerId };
    const recovered = await recoverEpoch({ ...deps, account }, place);
    const { files: epochFiles, leases } = recovered;
    account(epochFiles.segments.reduce((sum, { bytes }) => sum + bytes, 0) - (sizes.get(name) ?? 0));
    await settleOpen(recovered, deps);
    deps.onDamage(recovered.damagedRecords);
    return endedEpoch({ ...deps, epoch: epochFiles, leases, onRemoved: () => forget(name) });
  }

  function forget(name: string): void {
    taken.delete(name);
    sizes.delete(name);
  }

  return {
    take() {
      const next = taking.then(take);
      taking = next.then(
        () => {},
        () => {},
      );
      return next;
    },
    idle: () => taking,
  };
}

/** Nobody will know what they cost: they are charged what was reserved for them. */
async function settleOpen(
  recovered: Awaited<ReturnType<typeof recoverEpoch>>,
  { files, sync, segmentBytes, now, logger }: OrphanedEpochsDeps,
): Promise<void> {
  if (recovered.open.size === 0) return;
  const writer = createEpochWriter({
    ...recovered,
    epoch: recovered.files,
    files,
    sync,
    segmentBytes,
    hasRoomForCopies: () => true,
    now,
    logger,
  });
  try {
    for (const intent of recovered.open.values())
      writer.write([{ intent, tail: orphanTail(intent.reserveNanoUsd, now()) }]);
    await writer.durable();
  } finally {
    await writer.close();
  }
  const { producerId, epoch } = recovered.files;
  logger.warn(
    { producerId, epoch, attempts: recovered.open.size },
    'attempts without an end were settled at what was reserved for them',
  );
}

function orphanTail(reserveNanoUsd: bigint, at: Date): Uint8Array {
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

/**
 * Moves the epochs of spools beside this one that no process holds into this folder. They are held only while that is
 * done, so that their process can start again at any time.
 */
async function adoptSiblings(dir: string, { logger }: OrphanedEpochsDeps): Promise<void> {
  for (const sibling of await foldersIn(dirname(dir)).catch(() => [])) {
    const folder = join(dirname(dir), sibling);
    if (folder === dir) continue;
    try {
      await adopt(folder, dir, logger);
    } catch (error) {
      logger.warn({ err: error, folder }, 'the spool of another process could not be taken over');
    }
  }
}

async function adopt(folder: string, dir: string, logger: Logger): Promise<void> {
  const producerId = await readProducer(folder);
  // Looked at before it is locked: most are in use, or empty.
  if (!producerId || (await epochFolders(folder)).length === 0) return;
  const lock = await lockFolder(folder, ADOPTING);
  if ('heldBy' in lock) return;
  try {
    for (const name of await epochFolders(folder)) {
      await rename(join(folder, name), join(dir, isAdopted(name) ? name : `${name}@${producerId}`));
      logger.warn({ folder, epoch: name }, 'took over what another process left in its spool');
    }
  } finally {
    await lock.release();
  }
}

/** Undefined where the folder is no spool. */
export async function readProducer(folder: string): Promise<string | undefined> {
  const text = await readFile(join(folder, PRODUCER_FILE), 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return '';
    throw error;
  });
  return UUID_ONLY.test(text.trim()) ? text.trim() : undefined;
}

function isAdopted(name: string): boolean {
  return name.includes('@');
}

export async function epochFolders(dir: string): Promise<string[]> {
  return (await foldersIn(dir)).filter((name) => EPOCH_FOLDER.test(name)).sort();
}

async function foldersIn(dir: string): Promise<string[]> {
  const entries = await readdir(dir, { withFileTypes: true });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}
