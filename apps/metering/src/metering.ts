import { fromBinary, toBinary } from '@bufbuild/protobuf';
import type { UsageMessage, UsageStream } from '@weighbridge/bus';
import { USAGE_SHARDS, UsageBatchSchema, UsageEventSchema } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import {
  type LedgerEvent,
  MAX_EVENTS_PER_TRANSACTION,
  quarantine,
  recordUsage,
  touchKeys,
} from '@weighbridge/ledger';
import type { Logger, ServiceContext } from '@weighbridge/runtime';
import { ledgerEvent } from './ledgerEvent.ts';

export interface MeteringDeps {
  readonly db: Database;
  readonly stream: UsageStream;
  readonly now: () => Date;
}

/** Turns usage batches into ledger rows and spend buckets, one reader per shard. */
export async function startMetering(
  deps: MeteringDeps,
  { logger, onShutdown }: ServiceContext,
): Promise<void> {
  for (let shard = 0; shard < USAGE_SHARDS; shard++) {
    const consumption = await deps.stream.consume(shard, (batch) => meter(deps, logger, batch));
    onShutdown(`metering of shard ${shard}`, () => consumption.stop());
  }
}

/**
 * Handles a batch of messages. The stream forgets them only when this resolves:
 * 1. decode and check, before any SQL;
 * 2. commit what is good to the ledger, each event once;
 * 3. let the keys' last use follow;
 * 4. keep the rest in quarantine, so that one bad event neither holds up the others nor gets lost.
 * A crash anywhere in between brings the messages again, and the ledger knows their events already.
 */
async function meter(deps: MeteringDeps, logger: Logger, batch: readonly UsageMessage[]): Promise<void> {
  const events: LedgerEvent[] = [];
  const refused: { payload: Uint8Array; reason: string }[] = [];
  for (const { payload } of batch) {
    try {
      for (const event of fromBinary(UsageBatchSchema, payload).events) {
        try {
          events.push(ledgerEvent(event));
        } catch (error) {
          refused.push({
            payload: toBinary(UsageEventSchema, event),
            reason: `event: ${(error as Error).message}`,
          });
        }
      }
    } catch (error) {
      refused.push({ payload, reason: `batch: ${(error as Error).message}` });
    }
  }
  for (let at = 0; at < events.length; at += MAX_EVENTS_PER_TRANSACTION) {
    await recordUsage(deps.db, events.slice(at, at + MAX_EVENTS_PER_TRANSACTION));
  }
  await touchKeys(deps.db, events, deps.now());
  for (const { payload, reason } of refused) {
    logger.error({ reason }, 'usage could not be read; it is in quarantine');
    await quarantine(deps.db, { payload, reason, receivedAt: deps.now() });
  }
}
