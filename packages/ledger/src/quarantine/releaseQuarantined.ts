import { type Database, isRefusedData, type Tx } from '@weighbridge/database';
import { type DecodedBatch, decodeBatch, decodeEvent } from '../events/decodeUsage.ts';
import type { UsageToRecord } from '../events/usage.ts';
import { readIdRange } from '../maintenance/partitions.ts';
import { findKnownEpochs } from '../producers/findKnownEpochs.ts';
import { refusedByDatabase } from '../recording/recordOrQuarantine.ts';
import { type LastStep, recordInTransaction } from '../recording/recordUsage.ts';
import type { QuarantinedRow } from './quarantine.ts';

export interface Release {
  readonly id: bigint;
  readonly by: string;
  readonly now: Date;
  /** As for `recordUsage`. */
  readonly lastStep?: LastStep;
}

/**
 * Decodes quarantined usage again, with the rules of this release, and records it once, even if it has been recorded since.
 * If it is a whole message, those of its events that are refused take its place in quarantine. Undefined if nothing is held
 * under this id. Given a transaction, it runs in it; roll it back if the usage is still refused.
 */
export async function releaseQuarantined(
  db: Database,
  release: Release,
): Promise<'released' | { readonly stillRefused: string } | undefined> {
  if (db.isTransaction) return await releaseWithin(db as Tx, release);
  return await db.transaction().execute((tx) => releaseWithin(tx, release));
}

async function releaseWithin(
  tx: Tx,
  { id, by, now, lastStep }: Release,
): ReturnType<typeof releaseQuarantined> {
  const held = await tx
    .selectFrom('quarantined_usage')
    .selectAll()
    .where('id', '=', id)
    .where('state', '=', 'held')
    .forUpdate()
    .executeTakeFirst();
  if (!held) return undefined;
  const usage = await decodeHeld(tx, held);
  if (!usage) return { stillRefused: UNPROVEN };
  const [refused] = usage.refused;
  if (refused?.kind === held.kind) return { stillRefused: refused.reason };
  try {
    // An event was received when it was refused. Those of a message that could not be read were not.
    await recordInTransaction(tx, usage, now, {
      announces: false,
      lastStep,
      isReleased: held.kind === 'event',
    });
  } catch (error) {
    // The transaction has failed: its caller rolls it back.
    if (isRefusedData(error)) return { stillRefused: refusedByDatabase(error) };
    throw error;
  }
  await tx
    .updateTable('quarantined_usage')
    .set({ state: 'released', resolved_by: by, resolved_at: now })
    .where('id', '=', id)
    .execute();
  return 'released';
}

const UNPROVEN = 'the message is not signed by the producer that it names';

/** Undefined if it is a message that its producer did not send. */
async function decodeHeld(tx: Tx, held: QuarantinedRow): Promise<UsageToRecord | undefined> {
  const ids = await readIdRange(tx);
  if (held.kind === 'batch') {
    const batch = decodeBatch(held.payload, ids, undefined, held.producer_id ?? undefined);
    return (await isProven(tx, batch)) ? batch : undefined;
  }
  const { producer_id: producerId, epoch, shard, n } = held;
  if (producerId === null || epoch === null || shard === null || n === null) {
    // It was quarantined before events had numbers.
    return { ...decodeEvent(held.payload, undefined, ids), received: [] };
  }
  return { ...decodeEvent(held.payload, { producerId, epoch, shard, n }, ids), received: [] };
}

/** As metering asks of every message. */
async function isProven(tx: Tx, { proof, source }: DecodedBatch): Promise<boolean> {
  if (proof !== 'unsigned' || !source) return proof !== 'forged';
  return (await findKnownEpochs(tx, [source])).length > 0;
}
