import type { Database } from '@weighbridge/database';
import { AppError } from '@weighbridge/errors';
import { RebuildRunningError, rebuildBuckets } from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { recordAudit } from '../audit/audit.service.ts';

export interface RebuildDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** What the counters and the ledger's rows differ by. Amounts are exact, in nano-USD, as decimal integers. */
export interface PresentedRebuild {
  readonly applied: boolean;
  readonly events: number;
  readonly buckets: number;
  readonly difference_nano_usd: string;
  readonly differing_buckets: number;
  readonly differing_hours: number;
  readonly differing: { readonly bucket: string; readonly difference_nano_usd: string }[];
}

/** Adds the ledger's rows up anew and says what its counters differ by; with `apply`, they no longer do after it. */
export async function rebuildLedger(
  { db, now }: RebuildDeps,
  caller: Caller,
  apply: boolean,
): Promise<PresentedRebuild> {
  const rebuilt = await rebuildBuckets(db, { apply }).catch(refuseSecond);
  const summary = {
    events: Number(rebuilt.events),
    buckets: rebuilt.buckets,
    difference_nano_usd: String(rebuilt.differenceNanoUsd),
    differing_buckets: rebuilt.differingBuckets,
    differing_hours: rebuilt.differingHours,
  };
  if (apply) {
    // Its delta is committed under the ledger's own lock: only what was done is put on record after it.
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

function refuseSecond(error: unknown): never {
  if (!(error instanceof RebuildRunningError)) throw error;
  throw new AppError('conflict', 'rebuild_running', error.message, { cause: error });
}
