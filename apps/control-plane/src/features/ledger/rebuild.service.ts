import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import { RebuildRunningError, rebuildBuckets } from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { recordAudit } from '../audit/audit.service.ts';
import type { LedgerRebuild } from './rebuild.schemas.ts';

export interface RebuildDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** Sums the ledger's rows and compares the buckets with the sums; with `apply`, corrects the buckets. */
export async function rebuildLedger(
  { db, now }: RebuildDeps,
  caller: Caller,
  apply: boolean,
): Promise<LedgerRebuild> {
  const rebuilt = await rebuildBuckets(db, { apply }).catch(refuseConcurrent);
  const summary = {
    events: Number(rebuilt.events),
    buckets: rebuilt.buckets,
    difference_nano_usd: String(rebuilt.differenceNanoUsd),
    differing_buckets: rebuilt.differingBuckets,
    differing_hours: rebuilt.differingHours,
  };
  if (apply) {
    // The rebuild commits under the ledger's own lock, so its audit row is written after it.
    await db.transaction().execute(async (tx) => {
      await recordAudit(tx, {
        actor: caller,
        action: 'ledger.rebuilt',
        resourceId: 'ledger',
        detail: summary,
        at: now(),
      });
    });
  }
  return {
    applied: apply,
    ...summary,
    differing: rebuilt.differing.map(({ bucketKey, differenceNanoUsd }) => ({
      bucket: bucketKey,
      difference_nano_usd: String(differenceNanoUsd),
    })),
  };
}

function refuseConcurrent(error: unknown): never {
  if (!(error instanceof RebuildRunningError)) throw error;
  throw new AppError('conflict', 'rebuild_running', error.message, { cause: error });
}
