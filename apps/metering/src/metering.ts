import { setImmediate } from 'node:timers/promises';
import type { Subscription, UsageMessage, UsageStream } from '@weighbridge/bus';
import { USAGE_SHARDS } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { addEvidence } from '@weighbridge/evidence';
import {
  createKnownParts,
  decodeBatch,
  type KnownParts,
  MAX_EVENTS_PER_TRANSACTION,
  readIdRange,
  recordUsage,
  touchKeys,
  type UsageToRecord,
} from '@weighbridge/ledger';
import {
  createMetrics,
  type Logger,
  type Metrics,
  type ServiceContext,
  type TracedSpan,
  type Tracing,
} from '@weighbridge/runtime';
import { type Confirmer, createConfirmer } from './ackSender.ts';
import { answerConfirmQueries } from './acks.ts';
import { announceThreshold } from './announceThreshold.ts';
import { startUpkeep } from './maintenance.ts';
import { createMeteringMetrics, type MeteringMetrics } from './meteringMetrics.ts';

export interface MeteringDeps {
  readonly db: Database;
  readonly stream: UsageStream;
  readonly now: () => Date;
  /** How many days the ledger's rows are kept at least. */
  readonly retentionDays: number;
  /** Where its figures are shown; nowhere unless given. */
  readonly metrics?: Metrics;
  /** Left out where nothing is traced. */
  readonly tracing?: Tracing | undefined;
}

interface Worker extends Omit<MeteringDeps, 'metrics'> {
  readonly metrics: MeteringMetrics;
  readonly confirmer: Confirmer;
  readonly logger: Logger;
  /** What was read of events before, by all shards: keys are dealt out to them by policy, models are not. */
  readonly known: KnownParts;
}

/** Turns usage batches into ledger rows and spend buckets, one reader per shard, and looks after the ledger. */
export async function startMetering(deps: MeteringDeps, context: ServiceContext): Promise<void> {
  const { logger, onShutdown } = context;
  const metrics = createMeteringMetrics(deps.metrics ?? createMetrics());
  // The first look comes before any usage: a ledger that was away for months has no place for what comes now.
  const upkeep = await startUpkeep({ ...deps, metrics }, logger);
  onShutdown('upkeep of the ledger', () => upkeep.stop());
  const queries = answerConfirmQueries(deps, logger);
  onShutdown('answers to proxies', () => queries.stop());
  const confirmer = createConfirmer(deps.stream);
  onShutdown('confirms', () => confirmer.stop());
  const worker = { ...deps, metrics, confirmer, logger, known: createKnownParts() };
  const subscriptions: Subscription[] = [];
  // Waits for the batches at hand: they are committed, and forgotten by the stream.
  const stop = async () => void (await Promise.all(subscriptions.map((subscription) => subscription.stop())));
  onShutdown('metering of all shards', stop);
  for (let shard = 0; shard < USAGE_SHARDS; shard++) {
    const subscription = await deps.stream.consume(shard, (batch) =>
      confirmer.during(() => meter(worker, shard, batch)),
    );
    subscriptions.push(subscription);
  }
}

/**
 * Handles a batch of messages. The stream forgets them only when this resolves:
 * 1. decode and check, before any SQL;
 * 2. commit what is good to the ledger, each event once, and the rest to quarantine;
 * 3. note what the proxies need not keep any longer, to tell them soon;
 * 4. let the keys' last use follow.
 * A crash anywhere in between brings the messages again, and the ledger knows their events already. What the database
 * refuses is no event's fault: nothing is forgotten, and the shard waits until it goes on.
 */
async function meter(worker: Worker, shard: number, batch: readonly UsageMessage[]): Promise<void> {
  const began = performance.now();
  const span = worker.tracing && traceBatch(worker.tracing, shard, batch);
  let events = 0;
  try {
    for (const usage of await decode(worker, batch)) {
      await record(worker, usage);
      events += usage.events.length;
    }
    worker.metrics.batchSeconds.observe((performance.now() - began) / 1_000);
    worker.metrics.batchEvents.observe(events);
    span?.set({ 'weighbridge.usage.events': events });
    span?.end();
  } catch (error) {
    span?.end('not_recorded');
    worker.metrics.failures.inc({ shard: String(shard) });
    worker.logger.error({ err: error, shard }, 'usage could not be recorded; it stays in the stream');
    throw error;
  }
}

/** Of the proxies' traces that it is about, as many as a span has room for. */
function traceBatch(tracing: Tracing, shard: number, batch: readonly UsageMessage[]): TracedSpan {
  return tracing.begin('record usage', {
    kind: 'consumer',
    links: batch.flatMap(({ traceparent }) => traceparent ?? []),
    attributes: { 'messaging.batch.message_count': batch.length, 'weighbridge.usage.shard': shard },
  });
}

async function record(
  { db, stream, now, confirmer, metrics, logger }: Worker,
  usage: UsageToRecord,
): Promise<void> {
  const { newEvents, acks, thresholds } = await recordUsage(db, usage, now(), addEvidence);
  confirmer.add(acks);
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

/** Some milliseconds' work. */
const EVENTS_AT_ONCE = 256;

/** The messages, decoded, in portions that fit a transaction. */
async function decode(
  { db, now, known }: Pick<Worker, 'db' | 'now' | 'known'>,
  batch: readonly UsageMessage[],
): Promise<readonly UsageToRecord[]> {
  const ids = await readIdRange(db);
  // Its events would all be refused, and none of them is to blame.
  if (ids.before <= now()) throw new Error('the ledger has no partition for the present month yet');
  const messages: UsageToRecord[] = [];
  let events = 0;
  for (const { payload } of batch) {
    const message = decodeBatch(payload, ids, known);
    messages.push(message);
    const before = events;
    events += sizeOf(message);
    // The transactions of other shards, which keep counters locked, wait for this process to answer.
    if (Math.floor(before / EVENTS_AT_ONCE) < Math.floor(events / EVENTS_AT_ONCE)) await setImmediate();
  }
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
    for (const event of message.events) portion.events.push(event);
    for (const refused of message.refused) portion.refused.push(refused);
    for (const range of message.received) portion.received.push(range);
  }
  return portions;
}

function sizeOf({ events, refused }: UsageToRecord): number {
  return events.length + refused.length;
}
