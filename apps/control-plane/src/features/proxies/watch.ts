import { create, type MessageInitShape } from '@bufbuild/protobuf';
import type { ServerDuplexStream } from '@grpc/grpc-js';
import {
  type Hello,
  type ProxyStatus,
  type WatchRequest,
  type WatchResponse,
  WatchResponseSchema,
} from '@weighbridge/contracts';
import { AppError, toGrpcError } from '@weighbridge/errors';
import type { BucketRef, ModelOutput } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { EvidenceFeed } from '../evidence/evidenceFeed.ts';
import type { ChangeFeed } from './changeFeed.ts';
import { type Mark, type ProducerRun, superseded } from './producers.service.ts';
import type { SeenProxy } from './proxies.repository.ts';

type WatchStream = ServerDuplexStream<WatchRequest, WatchResponse>;

export interface WatcherDeps {
  readonly logger: Logger;
  readonly now: () => Date;
  readonly feed: ChangeFeed;
  /** Puts on record until when proxies may serve. What they are told rests on that. */
  readonly recordSeen: (proxies: readonly SeenProxy[]) => Promise<void>;
  readonly recordGone: (proxyId: string) => Promise<void>;
  /** Puts on record who writes to which spool; rejects with an AppError where that can not be. */
  readonly register: (run: ProducerRun) => Promise<void>;
  /** Puts on record how far the usage of proxies is in the ledger; resolves with those whose spools were taken over. */
  readonly keepMarks: (marks: readonly Mark[]) => Promise<readonly string[]>;
  readonly countLive: () => Promise<number>;
  readonly readModelOutputs: () => Promise<readonly ModelOutput[]>;
  readonly evidence: EvidenceFeed;
  /** Told how long a proxy took to apply a change, from when it was read here. */
  readonly onApplied: (seconds: number) => void;
}

export interface Watchers {
  /** Serves a proxy's stream until either side ends it. */
  add(stream: WatchStream): void;
  /** Something may have been committed: look now rather than with the next poll. */
  wake(): void;
  /** Asks all proxies here to give back what lies idle of a bucket. */
  recall(bucket: BucketRef): void;
  readonly count: number;
  close(): Promise<void>;
}

interface Watcher {
  readonly stream: WatchStream;
  proxy: SeenProxy;
  /** The spool that it writes to; empty for a proxy that does not tell. */
  readonly producerId: string;
  /** What it last said of its usage, until that is on record. */
  mark: Mark | undefined;
  /** What it has been sent up to; undefined: it gets everything anew. */
  sent: bigint | undefined;
  /** Its own clock in the newest status. */
  sentAtMs: bigint;
  /** What it was told of the models' answers. */
  sentOutputs: readonly ModelOutput[];
  /** Up to which turn it was told how models do; undefined: nothing yet. */
  sentEvidence: number | undefined;
  /** When what it has not applied yet was sent, monotonic; undefined: it has applied all. */
  waitingSince: number | undefined;
}

/** A missed wake-up costs one poll. It is also the rhythm of the heartbeats. */
const POLL_MS = 1_000;
/** So long after a proxy applied something, that is put on record: somebody may be waiting for it. */
const RECORD_DELAY_MS = 20;
/** As often as they are measured. */
const OUTPUTS_MS = 60_000;
const NO_OUTPUTS: readonly ModelOutput[] = [];

/**
 * Tells every proxy what it missed, each change as it is committed, and every second that this control plane reads the
 * database: where it can't, there is no heartbeat, and no proxy takes silence for news.
 */
export function startWatchers({
  logger,
  now,
  feed,
  recordSeen,
  recordGone,
  register,
  keepMarks,
  countLive,
  readModelOutputs,
  evidence,
  onApplied,
}: WatcherDeps): Watchers {
  const watchers = new Map<WatchStream, Watcher>();
  let closed = false;
  let advancing: Promise<boolean> | undefined;
  let isWoken = false;
  let recording: NodeJS.Timeout | undefined;
  let marking: Promise<void> | undefined;
  let telling: Promise<void> | undefined;
  let outputs: readonly ModelOutput[] = NO_OUTPUTS;
  let outputsReadAtMs = Number.NEGATIVE_INFINITY;
  const poll = setInterval(() => void beat(), POLL_MS);

  /**
   * One look at the database at a time, which whoever asks meanwhile waits for too; a wake-up makes for another one.
   * Resolves with whether all of it could be read.
   */
  function advance(): Promise<boolean> {
    isWoken = true;
    advancing ??= readAll().finally(() => {
      advancing = undefined;
    });
    return advancing;
  }

  async function readAll(): Promise<boolean> {
    try {
      while (isWoken && !closed) {
        isWoken = false;
        await feed.advance();
        for (const watcher of watchers.values()) await catchUp(watcher);
      }
      return true;
    } catch (error) {
      logger.error({ err: error }, 'changes could not be read; proxies get no heartbeat');
      return false;
    }
  }

  async function beat(): Promise<void> {
    if (!(await advance()) || watchers.size === 0) return;
    try {
      // The grants first: a proxy must never believe in a right that nobody knows of.
      const seen = [...watchers.values()].map((watcher) => ({ ...watcher, watcher }));
      await recordSeen(seen.map(({ proxy }) => proxy));
      const liveProxies = await countLive();
      await readOutputs();
      for (const { stream, sentAtMs, watcher } of seen) {
        if (!watchers.has(stream) || watcher.sent === undefined || stream.writableNeedDrain) continue;
        const clockMs = BigInt(now().getTime());
        // No further than it was sent: it has to have seen all that the heartbeat vouches for.
        const revision = watcher.sent;
        const modelOutputs = watcher.sentOutputs === outputs ? [] : [...outputs];
        watcher.sentOutputs = outputs;
        send(stream, {
          case: 'heartbeat',
          value: { revision, clockMs, liveProxies, answersSentAtMs: sentAtMs, modelOutputs },
        });
      }
    } catch (error) {
      logger.error({ err: error }, 'proxies could not be put on record; they get no heartbeat');
    }
    // After the heartbeats: the ledger's writer may hold the rows for a while, and no proxy is to wait for that.
    marking ??= recordNewMarks().finally(() => {
      marking = undefined;
    });
    telling ??= tellEvidence().finally(() => {
      telling = undefined;
    });
  }

  /** Tells proxies how models do of late. Whoever does not read now is told when it does. */
  async function tellEvidence(): Promise<void> {
    try {
      await evidence.advance();
    } catch (error) {
      logger.warn({ err: error }, 'how models do could not be read; proxies go by what they were told');
    }
    for (const watcher of watchers.values()) {
      const { stream, sent, sentEvidence } = watcher;
      if (sent === undefined || sentEvidence === evidence.turn || stream.writableNeedDrain) continue;
      for (const value of evidence.newsAfter(sentEvidence)) send(stream, { case: 'evidence', value });
      watcher.sentEvidence = evidence.turn;
    }
  }

  async function readOutputs(): Promise<void> {
    if (performance.now() - outputsReadAtMs < OUTPUTS_MS) return;
    outputsReadAtMs = performance.now();
    outputs = await readModelOutputs();
  }

  /** What proxies said of their usage since the last time: one that says nothing is not seen. */
  async function recordNewMarks(): Promise<void> {
    const said = [...watchers.values()].flatMap((watcher) =>
      watcher.mark ? [{ watcher, mark: watcher.mark }] : [],
    );
    try {
      const takenOver = await keepMarks(said.map(({ mark }) => mark));
      for (const { watcher, mark } of said) {
        if (watcher.mark === mark) watcher.mark = undefined;
        if (takenOver.includes(mark.epoch)) refuse(watcher.stream, superseded(mark.epoch));
      }
    } catch (error) {
      logger.error({ err: error }, 'how far usage is in the ledger could not be put on record');
    }
  }

  /** Ends a stream, and tells the proxy why. */
  function refuse(stream: WatchStream, error: AppError): void {
    logger.warn({ proxyId: watchers.get(stream)?.proxy.id, code: error.code }, error.message);
    watchers.delete(stream);
    stream.emit('error', toGrpcError(error));
  }

  /** Only the newest process on a spool is served. */
  function endEarlierRuns({ producerId, proxyId }: Hello): void {
    for (const { stream, proxy, producerId: other } of [...watchers.values()]) {
      if (other === producerId && proxy.id !== proxyId) refuse(stream, superseded(proxy.id));
    }
  }

  /** Sends what a proxy lacks. One that does not read gets it when it does: nothing piles up for it here. */
  async function catchUp(watcher: Watcher): Promise<void> {
    const { position } = feed;
    if (!position || watcher.stream.writableNeedDrain || watcher.sent === position.revision) return;
    const delta = watcher.sent === undefined ? undefined : feed.deltaAfter(watcher.sent);
    if (delta) {
      watcher.sent = delta.toRevision;
      watcher.waitingSince ??= performance.now();
      send(watcher.stream, { case: 'delta', value: delta });
      return;
    }
    const snapshot = await feed.snapshot();
    watcher.sent = snapshot.revision;
    send(watcher.stream, { case: 'snapshot', value: snapshot });
  }

  async function welcome(stream: WatchStream, hello: Hello): Promise<void> {
    const proxy: SeenProxy = {
      id: hello.proxyId,
      name: hello.name,
      version: hello.version,
      appliedRevision: 0n,
      inFlightRequests: 0,
      waitingUsageBytes: 0n,
      connectedAt: now(),
      maxStalenessMs: hello.maxStalenessMs,
    };
    logger.info({ proxyId: proxy.id, name: proxy.name, version: proxy.version }, 'a proxy is watching');
    if (!feed.position && !(await advance())) return void stream.end();
    const { producerId } = hello;
    if (producerId !== '') {
      await register({ producerId, epoch: proxy.id, name: proxy.name });
      endEarlierRuns(hello);
    }
    await recordSeen([proxy]);
    const watcher: Watcher = {
      stream,
      proxy,
      producerId,
      mark: undefined,
      sent: resumable(hello),
      sentAtMs: 0n,
      sentOutputs: NO_OUTPUTS,
      sentEvidence: undefined,
      waitingSince: undefined,
    };
    watchers.set(stream, watcher);
    await catchUp(watcher);
  }

  /** Where a proxy can go on from: its position, if it is one of this history. */
  function resumable({ resumeFrom }: Hello): bigint | undefined {
    const { position } = feed;
    const isOfThisHistory =
      resumeFrom?.databaseSystemId === position?.databaseSystemId &&
      resumeFrom?.timeline === position?.timeline;
    return isOfThisHistory && resumeFrom && feed.deltaAfter(resumeFrom.revision)
      ? resumeFrom.revision
      : undefined;
  }

  function applied(stream: WatchStream, status: ProxyStatus): void {
    const watcher = watchers.get(stream);
    if (!watcher) return;
    watcher.sentAtMs = status.sentAtMs;
    if (watcher.producerId !== '') watcher.mark = markOf(watcher, status);
    const isNews = status.appliedRevision > watcher.proxy.appliedRevision;
    watcher.proxy = {
      ...watcher.proxy,
      appliedRevision: status.appliedRevision,
      inFlightRequests: status.inFlightRequests,
      waitingUsageBytes: status.waitingUsageBytes,
    };
    if (watcher.waitingSince !== undefined && status.appliedRevision >= (watcher.sent ?? 0n)) {
      onApplied((performance.now() - watcher.waitingSince) / 1_000);
      watcher.waitingSince = undefined;
    }
    if (isNews) recording ??= setTimeout(() => void recordNews(), RECORD_DELAY_MS);
  }

  function markOf({ producerId, proxy }: Watcher, { markAgeMs }: ProxyStatus): Mark {
    const seenAt = now();
    const markAt = new Date(Math.max(0, seenAt.getTime() - Number(markAgeMs)));
    return { producerId, epoch: proxy.id, markAt, seenAt };
  }

  function gone(stream: WatchStream): void {
    const proxyId = watchers.get(stream)?.proxy.id;
    watchers.delete(stream);
    if (proxyId)
      recordGone(proxyId).catch((error) => logger.warn({ err: error }, 'a good-bye was not recorded'));
  }

  async function recordNews(): Promise<void> {
    recording = undefined;
    await recordSeen([...watchers.values()].map(({ proxy }) => proxy)).catch((error) =>
      logger.error({ err: error }, 'what proxies applied could not be put on record'),
    );
  }

  return {
    get count() {
      return watchers.size;
    },
    wake: () => void advance(),
    recall({ windowStart, ...counter }) {
      const bucket = { ...counter, windowStartMs: BigInt(windowStart.getTime()) };
      for (const { stream } of watchers.values()) {
        // Who does not read hears of it with the next one.
        if (!stream.writableNeedDrain) send(stream, { case: 'recall', value: { buckets: [bucket] } });
      }
    },
    add(stream) {
      if (closed) return void stream.end();
      const leave = () => watchers.delete(stream);
      stream.on('data', ({ message }: WatchRequest) => {
        if (message.case === 'status') applied(stream, message.value);
        else if (message.case === 'goodbye') gone(stream);
        else if (message.case === 'hello') {
          welcome(stream, message.value).catch((error) => {
            if (error instanceof AppError) return refuse(stream, error);
            logger.error({ err: error }, 'a proxy could not be welcomed; it will try again');
            stream.end();
          });
        }
      });
      stream.on('drain', () => {
        const watcher = watchers.get(stream);
        if (watcher)
          catchUp(watcher).catch((error) => logger.error({ err: error }, 'a slow proxy was not caught up'));
      });
      stream.on('error', leave);
      stream.on('close', leave);
      stream.on('end', () => {
        leave();
        stream.end();
      });
    },
    async close() {
      closed = true;
      clearInterval(poll);
      clearTimeout(recording);
      for (const stream of watchers.keys()) stream.end();
      watchers.clear();
      await marking;
      await telling;
    },
  };
}

function send(stream: WatchStream, message: MessageInitShape<typeof WatchResponseSchema>['message']): void {
  stream.write(create(WatchResponseSchema, message === undefined ? {} : { message }));
}
