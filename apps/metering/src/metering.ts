import { fromBinary, toBinary } from '@bufbuild/protobuf';
import type { UsageMessage, UsageStream } from '@weighbridge/bus';
import { USAGE_SHARDS, UsageBatchSchema, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
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
 * 2. commit what is good to the ledger, each event once, and find out what the ledger refuses all the same;
 * 3. let the keys' last use follow;
 * 4. keep the rest in quarantine, so that one bad event neither holds up the others nor gets lost.
 * A crash anywhere in between brings the messages again, and the ledger knows their events already.
 */
async function meter(deps: MeteringDeps, logger: Logger, batch: readonly UsageMessage[]): Promise<void> {
  const readable: Readable[] = [];
  const refused: Refused[] = [];
  for (const { payload } of batch) {
    try {
      for (const event of fromBinary(UsageBatchSchema, payload).events) {
        try {
          readable.push({ event, entry: ledgerEvent(event) });
        } catch (error) {
          refused.push(refusal(event, error));
        }
      }
    } catch (error) {
      refused.push({ payload, reason: `batch: ${(error as Error).message}` });
    }
  }
  for (let at = 0; at < readable.length; at += MAX_EVENTS_PER_TRANSACTION) {
    refused.push(...(await record(deps.db, readable.slice(at, at + MAX_EVENTS_PER_TRANSACTION))));
  }
  await touchKeys(
    deps.db,
    readable.map(({ entry }) => entry),
    deps.now(),
  );
  for (const { payload, reason } of refused) {
    logger.error({ reason }, 'usage could not be read; it is in quarantine');
    await quarantine(deps.db, { payload, reason, receivedAt: deps.now() });
  }
}

interface Readable {
  readonly event: UsageEvent;
  readonly entry: LedgerEvent;
}

interface Refused {
  readonly payload: Uint8Array;
  readonly reason: string;
}

/**
 * Commits events, and returns those that the database refuses for what is in them: tried again, they would hold up their
 * shard for ever. Rejects where it refuses for any other reason.
 */
async function record(db: Database, events: readonly Readable[]): Promise<Refused[]> {
  try {
    await recordUsage(
      db,
      events.map(({ entry }) => entry),
    );
    return [];
  } catch (error) {
    if (!isDataError(error)) throw error;
    const [first, ...others] = events;
    if (first && others.length === 0) return [refusal(first.event, error)];
  }
  // Nothing of it was committed: by halves, the culprits are found in few transactions.
  const middle = Math.ceil(events.length / 2);
  return [...(await record(db, events.slice(0, middle))), ...(await record(db, events.slice(middle)))];
}

/** SQLSTATE classes 22 (data exception) and 23 (integrity constraint violation). */
function isDataError(error: unknown): boolean {
  const { code } = error as { readonly code?: unknown };
  return typeof code === 'string' && /^2[23][0-9A-Z]{3}$/.test(code);
}

function refusal(event: UsageEvent, error: unknown): Refused {
  return { payload: toBinary(UsageEventSchema, event), reason: `event: ${(error as Error).message}` };
}
