import { type CloseEpochRequest, MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import {
  closeEpoch as closeLedgerEpoch,
  countsUnsigned,
  recordWatermarks,
  registerProducer,
  type Watermark,
} from '@weighbridge/ledger';
import type { UnsignedCalls } from './ownCalls.ts';
import { findServingProxies, findSupersededEpochs, type ServingProxy } from './proxies.repository.ts';

export type { ServingProxy };

export interface ProducerDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** One run of a proxy's process on its spool. */
export interface ProducerRun {
  readonly producerId: string;
  readonly epoch: string;
  readonly name: string;
  readonly signsUsage: boolean;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const MAX_N = 2n ** 63n - 2n;

/** Records that a run writes to its spool; it supersedes the run before. Throws if this run is itself superseded. */
export async function registerRun({ db, now }: ProducerDeps, run: ProducerRun): Promise<void> {
  assertUuids(run);
  const registered = await registerProducer(db, { ...run, now: now() });
  if (registered === 'superseded') throw epochSuperseded(run.epoch);
  if (registered === 'foreign') throw foreignEpoch(run.epoch);
}

/** Records how far each run's usage is in the ledger; resolves with those of their epochs that are superseded. */
export async function recordRunWatermarks(
  db: Database,
  watermarks: readonly Watermark[],
): Promise<readonly string[]> {
  if (watermarks.length === 0) return [];
  await recordWatermarks(db, watermarks);
  return await findSupersededEpochs(db, watermarks);
}

export function unsignedCalls(db: Database, accepted: boolean): UnsignedCalls {
  return { accepted, count: (producerIds) => countsUnsigned(db, producerIds) };
}

export function epochSuperseded(epoch: string): AppError {
  return new AppError(
    'conflict',
    'epoch_superseded',
    `Proxy ${epoch} is no longer served: another process took over its spool, or a copy of it was replayed. Give each proxy its own spool folder, replay no spool that is in use, and start this proxy again.`,
  );
}

function foreignEpoch(epoch: string): AppError {
  const message = `proxy_id ${epoch} is that of a process on another spool. Start this proxy again.`;
  return new AppError('permission', 'foreign_epoch', message);
}

/** The proxies that may serve requests now. */
export async function servingProxies(db: Database): Promise<readonly ServingProxy[]> {
  return await findServingProxies(db);
}

/** Closes an epoch that writes no more; resolves with whether the ledger has all its events. */
export async function closeEpoch({ db, now }: ProducerDeps, request: CloseEpochRequest): Promise<boolean> {
  const { producerId, epoch, lastN } = request;
  assertUuids({ producerId, epoch });
  if (lastN.length < USAGE_SHARDS || lastN.length > MAX_USAGE_SHARDS || lastN.some((n) => n > MAX_N)) {
    throw new AppError(
      'invalid_request',
      'invalid_request',
      `last_n: must hold the number of the last event of each shard, of ${USAGE_SHARDS} to ${MAX_USAGE_SHARDS} shards.`,
      { param: 'last_n' },
    );
  }
  return await closeLedgerEpoch(db, { producerId, epoch, lastN, now: now() });
}

function assertUuids({ producerId, epoch }: Pick<ProducerRun, 'producerId' | 'epoch'>): void {
  if (UUID.test(producerId) && UUID.test(epoch)) return;
  const message = 'producer_id and epoch (proxy_id in Hello) must be UUIDs.';
  throw new AppError('invalid_request', 'invalid_request', message);
}
