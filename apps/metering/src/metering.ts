import { setImmediate } from 'node:timers/promises';
import type { UsageMessage, UsageStream } from '@weighbridge/bus';
import type { Database } from '@weighbridge/database';
import { addEvidence } from '@weighbridge/evidence';
import {
  createDecodeCache,
  type DecodeCache,
  type DecodedBatch,
  decodeBatch,
  describeArchiveState,
  MAX_EVENTS_PER_TRANSACTION,
  readIdRange,
  recordOrQuarantine,
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
import { type AckSender, createAckSender } from './ackSender.ts';
import { answerAckRequests } from './acks.ts';
import { announceThreshold } from './announceThreshold.ts';
import { type ArchiverConfig, startArchiver } from './archiver.ts';
import { type LeaseCloser, startLeaseCloser } from './leaseCloser.ts';
import { type Maintenance, startMaintenance } from './maintenance.ts';
import { createMeteringMetrics, type MeteringMetrics } from './meteringMetrics.ts';
import { recordRefusedRequests } from './refusals.ts';
import { SenderCheck } from './senderCheck.ts';
import { startShardReaders } from './shardReaders.ts';
import { startSpendMerger } from './spendMerger.ts';

export interface MeteringDeps {
  readonly db: Database;
  readonly stream: UsageStream;
  readonly now: () => Date;
  /** For how many days at least the ledger's rows are retained. */
  readonly retentionDays: number;
  /** For how many days the rows of refused requests are retained; default 30. */
  readonly refusalRetentionDays?: number;
  /** Undefined: nothing is archived. */
  readonly archive?: ArchiverConfig | undefined;
  /** How often to look for shards that came into use; default 10 s. */
  readonly lookForShardsMs?: number;
  /** Undefined: the metrics are not shown. */
  readonly metrics?: Metrics;
  /** Undefined: nothing is traced. */
  readonly tracing?: Tracing | undefined;
}

interface Worker extends Omit<MeteringDeps, 'metrics' | 'archive'> {
  readonly metrics: MeteringMetrics;
  readonly ackSender: AckSender;
  readonly leaseCloser: LeaseCloser;
  readonly senders: SenderCheck;
  readonly logger: Logger;
  /** Shared by all shards, which see the same models and policies. */
  readonly decodeCache: DecodeCache;
}

export interface Metering {
  /** Undefined: it is ready. */
  notReady(): string | undefined;
  /** What does not work while usage is recorded; undefined if all does. */
  degraded(): string | undefined;
}

/** Records usage batches in the ledger, with a reader for each shard that is used, and runs the ledger's maintenance. */
export async function startMetering(deps: MeteringDeps, context: ServiceContext): Promise<Metering> {
  const { logger, onShutdown } = context;
  const metrics = createMeteringMetrics(deps.metrics ?? createMetrics());
  // Maintenance runs before any usage is read: after months of downtime, the current partition is missing.
  const maintenance = await startMaintenance(
    { ...deps, metrics, hasArchive: deps.archive !== undefined },
    logger,
  );
  onShutdown('ledger maintenance', () => maintenance.stop());
  if (deps.archive) await startArchiver({ ...deps, archive: deps.archive, metrics }, context);
  const leaseCloser = startLeaseCloser({ db: deps.db, metrics }, logger);
  onShutdown('leases of closed epochs', () => leaseCloser.stop());
  const spendMerger = startSpendMerger({ ...deps, metrics }, logger);
  // Steps run in the opposite order: no batch appends any more.
  onShutdown('spend to merge', () => spendMerger.stop());
  const requests = answerAckRequests(deps, logger);
  onShutdown('requests for acks', () => requests.stop());
  const refusals = recordRefusedRequests({ ...deps, metrics }, logger);
  onShutdown('refused requests', () => refusals.stop());
  const ackSender = createAckSender(deps.stream);
  onShutdown('acks', () => ackSender.stop());
  const senders = new SenderCheck({ db: deps.db, metrics, logger });
  const decodeCache = createDecodeCache();
  const worker = { ...deps, metrics, ackSender, leaseCloser, senders, logger, decodeCache };
  const readers = await startShardReaders(
    {
      stream: deps.stream,
      handle: (shard, batch) => ackSender.track(() => meter(worker, shard, batch)),
      onShards: (shards) => {
        metrics.shards.read = shards;
      },
      ...(deps.lookForShardsMs !== undefined && { lookEveryMs: deps.lookForShardsMs }),
    },
    logger,
  );
  onShutdown('usage readers', () => readers.stop());
  return {
    notReady: () => spendMerger.standsStill(),
    degraded: () => readers.problem() ?? describeArchive(maintenance, deps.now()),
  };
}

function describeArchive(maintenance: Maintenance, now: Date): string | undefined {
  const state = maintenance.archive();
  const problems = state ? describeArchiveState(state, now) : [];
  return problems.length > 0 ? `archive of the ledger: ${problems.join('; ')}` : undefined;
}

/**
 * Handles a batch of messages. The stream forgets them only when this resolves:
 * 1. Decode and validate, before any SQL. What its producer did not sign is dropped here.
 * 2. Commit the valid events to the ledger, each once, and the others to quarantine.
 * 3. Queue acks, which let the proxies delete the events from their spools.
 * 4. Update when the keys were last used.
 * After a crash in between, the messages are delivered again, and the ledger skips the events that it has. An event that the
 * database refuses goes to quarantine, alone. Any other error is no event's fault: nothing is forgotten, and the shard waits until
 * the database works again.
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
    worker.logger.error({ err: error, shard }, 'failed to record usage; it stays in the stream');
    throw error;
  }
}

/** A span linked to the proxies' traces, as far as a span has room for links. */
function traceBatch(tracing: Tracing, shard: number, batch: readonly UsageMessage[]): TracedSpan {
  return tracing.begin('record usage', {
    kind: 'consumer',
    links: batch.flatMap(({ traceparent }) => traceparent ?? []),
    attributes: { 'messaging.batch.message_count': batch.length, 'weighbridge.usage.shard': shard },
  });
}

async function record(
  { db, stream, now, ackSender, leaseCloser, metrics, logger }: Worker,
  usage: UsageToRecord,
): Promise<void> {
  const recorded = await recordOrQuarantine(db, usage, now(), { lastStep: addEvidence, appends: true });
  const { newEvents, acks, closedEpochs, thresholds, refused } = recorded;
  ackSender.add(acks);
  if (closedEpochs > 0) leaseCloser.prompt();
  for (const reached of thresholds) announceThreshold(stream, metrics, logger, reached);
  metrics.recorded.inc(newEvents);
  metrics.repeated.inc(usage.events.length + usage.refused.length - refused.length - newEvents);
  metrics.refused.inc(refused.length);
  for (const { kind, reason, origin } of refused) {
    logger.error({ kind, reason, ...origin, n: origin?.n.toString() }, 'refused usage is in quarantine');
  }
  await touchKeys(db, usage.events, now());
}

/** A few milliseconds of work. */
const EVENTS_PER_TURN = 256;

/** Decodes the messages that their producers sent, in portions that fit a transaction. */
async function decode(
  { db, now, decodeCache, senders }: Pick<Worker, 'db' | 'now' | 'decodeCache' | 'senders'>,
  batch: readonly UsageMessage[],
): Promise<readonly UsageToRecord[]> {
  const ids = await readIdRange(db);
  // All events would be refused, through no fault of theirs.
  if (ids.before <= now()) throw new Error('the ledger has no partition for the current month yet');
  const messages: DecodedBatch[] = [];
  let events = 0;
  for (const { payload, producerId } of batch) {
    const message = decodeBatch(payload, ids, decodeCache, producerId);
    messages.push(message);
    const before = events;
    events += sizeOf(message);
    // Yield: the transactions of other shards hold locks while they wait for this process.
    if (Math.floor(before / EVENTS_PER_TURN) < Math.floor(events / EVENTS_PER_TURN)) await setImmediate();
  }
  return portionsOf(await senders.pass(messages));
}

/** Joins messages into portions of about equal size, since a transaction costs much the same for few events as for many. */
function portionsOf(messages: readonly UsageToRecord[]): readonly UsageToRecord[] {
  const events = messages.reduce((sum, message) => sum + sizeOf(message), 0);
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
