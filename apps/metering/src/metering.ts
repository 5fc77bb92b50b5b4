import type { UsageMessage, UsageStream } from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import {
  decodeBatch,
  MAX_EVENTS_PER_TRANSACTION,
  readIdRange,
  recordUsage,
  touchKeys,
  type UsageToRecord,
} from '@weighbridge/ledger';
import { createMetrics, type Logger, type Metrics, type ServiceContext } from '@weighbridge/runtime';
import { announceThreshold } from './announceThreshold.ts';
import { answerConfirmQueries, sendConfirms } from './confirms.ts';
import { createMeteringMetrics, type MeteringMetrics } from './meteringMetrics.ts';
import { startUpkeep } from './upkeep.ts';

export interface MeteringDeps {
  readonly db: Database;
  readonly stream: UsageStream;
  readonly now: () => Date;
  /** How many days the ledger's rows are kept at least. */
  readonly retentionDays: number;
  /** Where its figures are shown; nowhere unless given. */
  readonly metrics?: Metrics;
}

/** Turns usage batches into ledger rows and spend buckets, one reader per shard, and looks after the ledger. */
export async function startMetering(deps: MeteringDeps, context: ServiceContext): Promise<void> {
  const { logger, onShutdown } = context;
  const metrics = createMeteringMetrics(deps.metrics ?? createMetrics());
  // The first look comes before any usage: a ledger that was away for months has no place for what comes now.
  const upkeep = await startUpkeep({ ...deps, metrics }, logger);
  onShutdown('upkeep of the ledger', () => upkeep.stop());
  const queries = answerConfirmQueries(deps, logger);
  onShutdown('confirms', () => queries.stop());
  for (let shard = 0; shard < USAGE_SHARDS; shard++) {
    const consumption = await deps.stream.consume(shard, (batch) =>
      meter(deps, metrics, logger, shard, batch),
    );
    // Waits for the batch at hand: it is committed, confirmed and forgotten by the stream.
    onShutdown(`metering of shard ${shard}`, () => consumption.stop());
  }
}

/**
 * Handles a batch of messages. The stream forgets them only when this resolves:
 * 1. decode and check, before any SQL;
 * 2. commit what is good to the ledger, each event once, and the rest to quarantine;
 * 3. tell the proxies what they need not keep any longer;
 * 4. let the keys' last use follow.
 * A crash anywhere in between brings the messages again, and the ledger knows their events already. What the database
 * refuses is no event's fault: nothing is forgotten, and the shard waits until it goes on.
 */
async function meter(
  deps: MeteringDeps,
  metrics: MeteringMetrics,
  logger: Logger,
  shard: number,
  batch: readonly UsageMessage[],
): Promise<void> {
  try {
    for (const usage of await decode(deps, batch)) await record(deps, metrics, logger, usage);
  } catch (error) {
    metrics.failures.inc({ shard: String(shard) });
    logger.error({ err: error, shard }, 'usage could not be recorded; it stays in the stream');
    throw error;
  }
}

async function record(
  { db, stream, now }: MeteringDeps,
  metrics: MeteringMetrics,
  logger: Logger,
  usage: UsageToRecord,
): Promise<void> {
  const { newEvents, confirms, thresholds } = await recordUsage(db, usage, now());
  sendConfirms(stream, confirms);
  for (const reached of thresholds) announceThreshold(stream, metrics, logger, reached);
  metrics.recorded.inc(newEvents);
  metrics.repeated.inc(usage.events.length - newEvents);
  metrics.refused.inc(usage.refused.length);
  for (const { kind, reason, origin } of usage.refused) {
    logger.error(
      { kind, reason, ...origin, n: origin?.n.toString() },
      'usage was refused; it is in quarantine',
    );
  }
  await touchKeys(db, usage.events, now());
}

/** The messages, decoded, in portions that fit a transaction. */
async function decode(
  { db, now }: MeteringDeps,
  batch: readonly UsageMessage[],
): Promise<readonly UsageToRecord[]> {
  const ids = await readIdRange(db);
  // Its events would all be refused, and none of them is to blame.
  if (ids.before <= now()) throw new Error('the ledger has no partition for the present month yet');
  const messages = batch.map(({ payload }) => decodeBatch(payload, ids));
  const events = messages.reduce((sum, message) => sum + sizeOf(message), 0);
  // Of about the same size: a transaction for the few that are left over costs as much as one for many.
  const enough = Math.ceil(events / Math.ceil(events / MAX_EVENTS_PER_TRANSACTION));
  const portions: { -readonly [K in keyof UsageToRecord]: UsageToRecord[K][number][] }[] = [];
  for (const message of messages) {
    let portion = portions.at(-1);
    const size = portion ? sizeOf(portion) : 0;
    if (!portion || size >= enough || size + sizeOf(message) > MAX_EVENTS_PER_TRANSACTION) {
      portion = { events: [], refused: [], received: [] };
      portions.push(portion);
    }
    portion.events.push(...message.events);
    portion.refused.push(...message.refused);
    portion.received.push(...message.received);
  }
  return portions;
}

function sizeOf({ events, refused }: UsageToRecord): number {
  return events.length + refused.length;
}
