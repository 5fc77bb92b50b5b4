import type { BucketRef } from '@weighbridge/budget';
import {
  type ConnectorTested,
  ControlService,
  type Hello,
  type IncomingCall,
  type KeyUse,
  type ProxyStatus,
  type WatchRequest,
} from '@weighbridge/contracts';
import { AppError, toGrpcError } from '@weighbridge/errors';
import type { ModelOutput, Watermark } from '@weighbridge/ledger';
import type { Logger } from '@weighbridge/runtime';
import type { ProxyFinding } from '../connectors/proxyTests.ts';
import type { EvidenceFeed } from '../evidence/evidenceFeed.ts';
import type { ChangeFeed } from './changeFeed.ts';
import { epochSuperseded, type ProducerRun } from './producers.service.ts';
import type { SeenProxy } from './proxies.repository.ts';
import type { ProxyOverhead } from './proxyOverheads.ts';
import { type ConnectorTestMessage, type WatchCall, WatchedProxy } from './watchedProxy.ts';

export interface WatchersDeps {
  readonly logger: Logger;
  readonly now: () => Date;
  readonly feed: ChangeFeed;
  readonly evidence: EvidenceFeed;
  /** Rejects with an AppError unless a message is signed by the producer that it names. */
  readonly assertOwn: (call: IncomingCall) => Promise<void>;
  /** Records the proxies as seen now, and until when each may serve. Heartbeats rely on it. */
  readonly recordSeen: (proxies: readonly SeenProxy[]) => Promise<void>;
  readonly recordGoodbye: (proxyId: string) => Promise<void>;
  /** Records which process writes to which spool; rejects with an AppError if that process was superseded. */
  readonly registerRun: (run: ProducerRun) => Promise<void>;
  /** Records how far the usage of proxies is in the ledger; resolves with the superseded epochs among them. */
  readonly recordWatermarks: (watermarks: readonly Watermark[]) => Promise<readonly string[]>;
  /** Keys that requests used since a proxy last reported it. */
  readonly onKeyUses: (uses: readonly KeyUse[]) => void;
  /** What a proxy found with a connector that it was asked to test. */
  readonly onConnectorTested: (proxy: ProxyFinding['proxy'], tested: ConnectorTested) => void;
  /** How much time the proxies added to the requests of the last minutes. */
  readonly tellOverheads: (overheads: readonly ProxyOverhead[]) => Promise<void>;
  readonly countLive: () => Promise<number>;
  readonly readModelOutputs: () => Promise<readonly ModelOutput[]>;
  /** Called with the time that a proxy took to apply a change, counted from when it was sent. */
  readonly onApplied: (seconds: number) => void;
}

/** A missed notification of a change costs one poll. Each poll also sends the heartbeats. */
const POLL_MS = 1_000;
const OVERHEADS_MS = 10_000;
/** Applied revisions are recorded this soon: a caller may be waiting for its change to propagate. */
const RECORD_DELAY_MS = 20;
/** Metering measures the model outputs this often. */
const MODEL_OUTPUTS_MS = 60_000;

/**
 * The connected proxies. The life of a proxy's stream, in the order of the methods below:
 *
 * 1. `serve` listens to the stream, `#greet` answers its hello: it registers the proxy and sends a snapshot or a delta.
 * 2. Each poll or notification reads the changes and sends them (`#readChanges`).
 * 3. Each poll then sends heartbeats (`#beat`), and evidence that changed. If the database can't be read, there is no
 *    heartbeat, so no proxy takes silence for "nothing changed".
 * 4. `reclaim` asks all proxies to return the idle part of a lease.
 * 5. Either side ends the stream (`#leave`, `#refuse`); `close` ends all streams and timers.
 */
export class Watchers {
  readonly #deps: WatchersDeps;
  /** All open streams, including those whose hello has not arrived. */
  readonly #calls = new Set<WatchCall>();
  readonly #proxies = new Map<WatchCall, WatchedProxy>();
  readonly #poll: NodeJS.Timeout;
  #recordTimer: NodeJS.Timeout | undefined;
  #isClosed = false;
  #hasUnreadChanges = false;
  #modelOutputs: readonly ModelOutput[] = [];
  #modelOutputsReadAtMs = Number.NEGATIVE_INFINITY;
  #overheadsToldAtMs = Number.NEGATIVE_INFINITY;
  readonly #changesRun = new SingleRun(() => this.#readChanges());
  readonly #watermarksRun = new SingleRun(() => this.#recordWatermarks());
  readonly #evidenceRun = new SingleRun(() => this.#sendEvidence());
  readonly #overheadsRun = new SingleRun(() => this.#tellOverheads());

  constructor(deps: WatchersDeps) {
    this.#deps = deps;
    this.#poll = setInterval(() => void this.#beat(), POLL_MS);
  }

  /** How many proxies are connected. */
  get count(): number {
    return this.#proxies.size;
  }

  /** Serves a proxy's stream until either side ends it. */
  serve(call: WatchCall): void {
    if (this.#isClosed) return void call.end();
    this.#calls.add(call);
    call.on('data', (request: WatchRequest) => this.#receive(call, request));
    call.on('drain', () => this.#onDrain(call));
    call.on('error', () => this.#leave(call));
    call.on('close', () => this.#leave(call));
    call.on('end', () => {
      this.#leave(call);
      call.end();
    });
  }

  #receive(call: WatchCall, request: WatchRequest): void {
    if (!this.#calls.has(call)) return;
    this.#deps
      .assertOwn({ method: ControlService.method.watch, metadata: call.metadata, request })
      .then(() => this.#apply(call, request))
      .catch((error) => this.#refuse(call, error));
  }

  async #apply(call: WatchCall, { message }: WatchRequest): Promise<void> {
    // It may have disconnected meanwhile.
    if (!this.#calls.has(call)) return;
    if (message.case === 'status') this.#applyStatus(call, message.value);
    else if (message.case === 'connectorTested') this.#applyTest(call, message.value);
    else if (message.case === 'goodbye') this.#sayGoodbye(call);
    else if (message.case === 'hello') await this.#greet(call, message.value);
  }

  async #greet(call: WatchCall, hello: Hello): Promise<void> {
    const { logger, now, feed, registerRun, recordSeen } = this.#deps;
    const proxy = new WatchedProxy(call, hello, now());
    const { name, version } = proxy.seen;
    logger.info({ proxyId: proxy.id, name, version }, 'proxy connected');
    if (!feed.position && !(await this.#advance())) return void call.end();
    if (proxy.producerId !== '') {
      const { producerId, signsUsage } = proxy;
      await registerRun({ producerId, epoch: proxy.id, name, signsUsage });
      this.#endEarlierRuns(proxy);
    }
    await recordSeen([proxy.seen]);
    // It may have disconnected meanwhile: a proxy without a stream would count as live for good.
    if (!this.#calls.has(call)) return;
    this.#proxies.set(call, proxy);
    proxy.catchUp(feed);
  }

  /** Only the newest process on a spool is served. */
  #endEarlierRuns({ id, producerId }: WatchedProxy): void {
    for (const [call, other] of [...this.#proxies]) {
      if (other.producerId === producerId && other.id !== id) this.#refuse(call, epochSuperseded(other.id));
    }
  }

  /** Changes may have been committed: reads them now rather than with the next poll. */
  wake(): void {
    void this.#advance();
  }

  /** Reads and sends new changes. One read runs at a time; resolves with whether it succeeded. */
  #advance(): Promise<boolean> {
    this.#hasUnreadChanges = true;
    return this.#changesRun.start();
  }

  async #readChanges(): Promise<boolean> {
    const { feed, logger } = this.#deps;
    try {
      // A notification that arrives during a read asks for another one.
      while (this.#hasUnreadChanges && !this.#isClosed) {
        this.#hasUnreadChanges = false;
        await feed.advance();
        for (const [call, proxy] of [...this.#proxies]) this.#catchUp(call, proxy);
      }
      return true;
    } catch (error) {
      logger.error({ err: error }, 'failed to read changes; proxies get no heartbeat');
      return false;
    }
  }

  /** A proxy that was slow reads again. */
  #onDrain(call: WatchCall): void {
    const proxy = this.#proxies.get(call);
    if (proxy) this.#catchUp(call, proxy);
  }

  /** A proxy that can't be sent what it lacks gets the reason, and no heartbeat. */
  #catchUp(call: WatchCall, proxy: WatchedProxy): void {
    try {
      proxy.catchUp(this.#deps.feed);
    } catch (error) {
      this.#refuse(call, error);
    }
  }

  async #beat(): Promise<void> {
    if (!(await this.#advance()) || this.#proxies.size === 0) return;
    try {
      await this.#sendHeartbeats();
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'failed to record proxies as seen; they get no heartbeat');
    }
    // After the heartbeats: metering may hold row locks for a while, and no heartbeat may wait for them.
    void this.#watermarksRun.start();
    void this.#evidenceRun.start();
    if (performance.now() - this.#overheadsToldAtMs >= OVERHEADS_MS) void this.#overheadsRun.start();
  }

  async #sendHeartbeats(): Promise<void> {
    const { now, recordSeen, countLive } = this.#deps;
    const recorded = [...this.#proxies].map(([call, proxy]) => {
      return { call, proxy, seen: proxy.seen, statusSentAtMs: proxy.statusSentAtMs };
    });
    // Recorded first: a proxy must not rely on a right to serve that is written nowhere.
    await recordSeen(recorded.map(({ seen }) => seen));
    const liveProxies = await countLive();
    const modelOutputs = await this.#currentModelOutputs();
    for (const { call, proxy, statusSentAtMs } of recorded) {
      if (!this.#proxies.has(call)) continue;
      proxy.sendHeartbeat({ clock: now(), liveProxies, modelOutputs }, statusSentAtMs);
    }
  }

  async #currentModelOutputs(): Promise<readonly ModelOutput[]> {
    if (performance.now() - this.#modelOutputsReadAtMs >= MODEL_OUTPUTS_MS) {
      this.#modelOutputsReadAtMs = performance.now();
      this.#modelOutputs = await this.#deps.readModelOutputs();
    }
    return this.#modelOutputs;
  }

  /** Records the watermarks reported since the last time; a proxy that reports none is not seen. */
  async #recordWatermarks(): Promise<void> {
    const reported = [...this.#proxies].flatMap(([call, proxy]) =>
      proxy.watermark ? [{ call, proxy, watermark: proxy.watermark }] : [],
    );
    try {
      const superseded = await this.#deps.recordWatermarks(reported.map(({ watermark }) => watermark));
      for (const { call, proxy, watermark } of reported) {
        proxy.watermarkRecorded(watermark);
        if (superseded.includes(proxy.id)) this.#refuse(call, epochSuperseded(proxy.id));
      }
    } catch (error) {
      this.#deps.logger.error({ err: error }, 'failed to record usage watermarks');
    }
  }

  async #sendEvidence(): Promise<void> {
    const { evidence, logger } = this.#deps;
    try {
      await evidence.advance();
    } catch (error) {
      logger.warn({ err: error }, 'failed to read model evidence; proxies keep the last values');
    }
    for (const proxy of this.#proxies.values()) proxy.sendEvidence(evidence);
  }

  async #tellOverheads(): Promise<void> {
    const overheads = [...this.#proxies.values()].flatMap(({ id, overhead }) =>
      overhead ? [{ proxyId: id, ...overhead }] : [],
    );
    if (overheads.length === 0) return;
    this.#overheadsToldAtMs = performance.now();
    await this.#deps
      .tellOverheads(overheads)
      .catch((error) => this.#deps.logger.warn({ err: error }, 'failed to report proxy overhead'));
  }

  #applyStatus(call: WatchCall, status: ProxyStatus): void {
    // Also before the hello is answered: the proxy does not report them again on this stream.
    if (status.keyUses.length > 0) this.#deps.onKeyUses(status.keyUses);
    const proxy = this.#proxies.get(call);
    if (!proxy) return;
    const { isNewRevision, appliedAfterSeconds } = proxy.applyStatus(status, this.#deps.now());
    if (appliedAfterSeconds !== undefined) this.#deps.onApplied(appliedAfterSeconds);
    if (isNewRevision) {
      this.#recordTimer ??= setTimeout(() => void this.#recordAppliedRevisions(), RECORD_DELAY_MS);
    }
  }

  async #recordAppliedRevisions(): Promise<void> {
    const { recordSeen, logger } = this.#deps;
    this.#recordTimer = undefined;
    await recordSeen([...this.#proxies.values()].map(({ seen }) => seen)).catch((error) =>
      logger.error({ err: error }, 'failed to record applied revisions'),
    );
  }

  /** Asks all connected proxies to return the idle part of their leases on a bucket. */
  reclaim(bucket: BucketRef): void {
    for (const proxy of this.#proxies.values()) proxy.sendReclaim(bucket);
  }

  /** Whether any of these proxies is connected to this control plane. */
  hasAny(proxyIds: readonly string[]): boolean {
    return [...this.#proxies.values()].some(({ id }) => proxyIds.includes(id));
  }

  /** Asks those of the proxies that are connected here to test a connector. */
  test(proxyIds: readonly string[], test: ConnectorTestMessage): void {
    for (const proxy of this.#proxies.values()) if (proxyIds.includes(proxy.id)) proxy.sendTest(test);
  }

  #applyTest(call: WatchCall, tested: ConnectorTested): void {
    const proxy = this.#proxies.get(call);
    if (proxy) this.#deps.onConnectorTested({ id: proxy.id, name: proxy.seen.name }, tested);
  }

  #sayGoodbye(call: WatchCall): void {
    const { recordGoodbye, logger } = this.#deps;
    const proxy = this.#proxies.get(call);
    this.#proxies.delete(call);
    if (!proxy) return;
    recordGoodbye(proxy.id).catch((error) =>
      logger.warn({ err: error }, 'failed to record a clean disconnect'),
    );
  }

  /** Ends a stream with the reason, which the proxy gets. Unless the reason is for good, it reconnects. */
  #refuse(call: WatchCall, error: unknown): void {
    const { logger } = this.#deps;
    const proxyId = this.#proxies.get(call)?.id;
    if (error instanceof AppError) logger.warn({ proxyId, code: error.code }, error.message);
    else logger.error({ proxyId, err: error }, 'failed to register a proxy or to send it what changed');
    this.#leave(call);
    call.emit('error', toGrpcError(error));
  }

  #leave(call: WatchCall): void {
    this.#calls.delete(call);
    this.#proxies.delete(call);
  }

  /** Ends the timers and all streams, and waits for what is under way. */
  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#poll);
    clearTimeout(this.#recordTimer);
    for (const call of this.#calls) call.end();
    this.#calls.clear();
    this.#proxies.clear();
    await this.#changesRun.idle();
    await this.#watermarksRun.idle();
    await this.#evidenceRun.idle();
  }
}

/** Runs a task at most once at a time: a start during a run joins it. */
class SingleRun<T> {
  readonly #task: () => Promise<T>;
  #running: Promise<T> | undefined;

  constructor(task: () => Promise<T>) {
    this.#task = task;
  }

  start(): Promise<T> {
    this.#running ??= this.#task().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  /** Resolves when no run is under way. */
  async idle(): Promise<void> {
    await this.#running;
  }
}
