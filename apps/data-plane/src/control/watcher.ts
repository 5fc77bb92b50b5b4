import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Client, status as GrpcStatus, type Metadata, type ServiceError } from '@grpc/grpc-js';
import type { BucketRef } from '@weighbridge/budget';
import type {
  ConnectorConditionSchema,
  ConnectorTestedSchema,
  Evidence,
  OverheadHistogramSchema,
  ProducerKey,
  ProxyStatusSchema,
  TestConnector,
  WatchResponse,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import { RowParts } from '@weighbridge/state';
import type { ControlState } from './controlState.ts';
import type { HeartbeatState } from './heartbeatState.ts';
import type { KeyUses } from './keyUses.ts';
import { WatchStream } from './watchStream.ts';

export interface WatcherOptions {
  readonly proxy: {
    /** The epoch of its spool. */
    readonly id: string;
    /** The producer of its spool. */
    readonly producerId: string;
    /** Signs its calls. */
    readonly key: ProducerKey | undefined;
    readonly name: string;
    readonly version: string;
    readonly maxStalenessMs: number;
  };
  readonly state: ControlState;
  readonly heartbeats: HeartbeatState;
  /** Other proxies need budget that is leased from these buckets. */
  readonly onReclaim: (buckets: readonly BucketRef[]) => void;
  readonly onEvidence: (news: Evidence) => void;
  /** An operator wants to know what this proxy finds with a connector. Never rejects. */
  readonly onTest: (test: TestConnector) => Promise<MessageInitShape<typeof ConnectorTestedSchema>>;
  /** This proxy's load, for its status reports. */
  readonly load: () => {
    readonly inFlightRequests: number;
    readonly waitingUsageBytes: number;
    readonly watermarkAgeMs: number;
    readonly usageLimitBytes: number;
    /** Those that it sends nothing to, or little. */
    readonly connectors: readonly MessageInitShape<typeof ConnectorConditionSchema>[];
    /** The time that it added to requests. */
    readonly overhead: MessageInitShape<typeof OverheadHistogramSchema>;
  };
  readonly keyUses: KeyUses;
  readonly logger: Logger;
}

interface WatcherDeps extends WatcherOptions {
  readonly client: Client;
  readonly metadata: Metadata;
  readonly wrongToken: () => Error;
}

export const RECONNECT_MAX_MS = 2_000;
const RECONNECT_MIN_MS = 100;
/** A change can be missed, and a stream can break, once or twice. */
const MAX_FAILED_UPDATES = 3;

/** Holds a Watch stream open, reconnects it, and applies its messages. */
export class Watcher {
  readonly #deps: WatcherDeps;
  readonly #closing = new AbortController();
  readonly #watching: Promise<void>;
  #stream: WatchStream | undefined;
  #rowParts = new RowParts();
  #resolveFirst: () => void = () => {};
  #rejectFirst: (error: Error) => void = () => {};
  #refusal: Error | undefined;
  #failedUpdates = 0;
  #updateFault: string | undefined;
  /** Resolves with the first snapshot; rejects if the control plane refuses this process. */
  readonly firstSnapshot = new Promise<void>((resolve, reject) => {
    this.#resolveFirst = resolve;
    this.#rejectFirst = reject;
  });

  constructor(deps: WatcherDeps) {
    this.#deps = deps;
    // Only a start without stored state waits for it.
    this.firstSnapshot.catch(() => {});
    this.#watching = this.#watch();
  }

  /** Why the control plane will never serve this process again. */
  get refusal(): Error | undefined {
    return this.#refusal;
  }

  /** Streams in a row that ended because this proxy could not apply what it was sent. */
  get failedUpdates(): number {
    return this.#failedUpdates;
  }

  /** Why nothing that the control plane sends can be applied, for the operator; undefined if it can. */
  get updateFault(): string | undefined {
    return this.#updateFault;
  }

  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#stream?.close();
    await this.#watching;
  }

  async #watch(): Promise<void> {
    const { logger, wrongToken } = this.#deps;
    let pauseMs = RECONNECT_MIN_MS;
    while (!this.#closing.signal.aborted) {
      const beganAtMs = Date.now();
      const reason = await this.#watchOnce();
      if (hasStatus(reason, GrpcStatus.UNAUTHENTICATED)) this.#rejectFirst(wrongToken());
      if (this.#closing.signal.aborted) return;
      if (hasStatus(reason, GrpcStatus.FAILED_PRECONDITION)) return this.#refused(reason.details);
      if (isUnapplied(reason)) this.#noteFailedUpdate(reason);
      if (Date.now() - beganAtMs > RECONNECT_MAX_MS) pauseMs = RECONNECT_MIN_MS;
      logger.warn({ reason: String(reason) }, 'lost the stream from the control plane; reconnecting');
      // Jitter, so that a restarted control plane is not hit by all proxies at once.
      const jitteredMs = pauseMs * (0.5 + Math.random());
      await sleep(jitteredMs, undefined, { signal: this.#closing.signal }).catch(() => {});
      pauseMs = Math.min(pauseMs * 2, RECONNECT_MAX_MS);
    }
  }

  async #watchOnce(): Promise<unknown> {
    const { client, metadata, proxy, state } = this.#deps;
    const { id: proxyId, producerId, key, name, version, maxStalenessMs } = proxy;
    state.beginStream();
    this.#rowParts = new RowParts();
    const resumeFrom = state.position;
    const stream = new WatchStream({
      client,
      metadata,
      key,
      hello: {
        proxyId,
        producerId,
        signsUsage: true,
        takesRows: true,
        name,
        version,
        maxStalenessMs,
        ...(resumeFrom && { resumeFrom }),
      },
      status: (options) => this.#status(options),
      onMessage: (message, helloAtMs) => this.#apply(message, helloAtMs),
    });
    this.#stream = stream;
    const reason = await stream.ended;
    this.#stream = undefined;
    this.#deps.keyUses.resend();
    return reason;
  }

  #status(options?: { readonly isLast: boolean }): MessageInitShape<typeof ProxyStatusSchema> {
    const load = this.#deps.load();
    const sentAtMs = Math.floor(performance.now());
    return {
      appliedRevision: this.#deps.state.position?.revision ?? 0n,
      inFlightRequests: load.inFlightRequests,
      waitingUsageBytes: BigInt(load.waitingUsageBytes),
      usageLimitBytes: BigInt(load.usageLimitBytes),
      markAgeMs: BigInt(load.watermarkAgeMs),
      connectors: [...load.connectors],
      overhead: load.overhead,
      sentAtMs: BigInt(sentAtMs),
      keyUses: this.#deps.keyUses.report(sentAtMs, Date.now(), options),
    };
  }

  /** Returns why the stream must be reopened. */
  #apply(message: WatchResponse['message'], helloAtMs: number): unknown {
    try {
      return this.#applyMessage(message, helloAtMs);
    } catch (error) {
      return new UnappliedUpdate(`an update could not be applied: ${String(error)}`, { cause: error });
    }
  }

  #applyMessage(message: WatchResponse['message'], helloAtMs: number): unknown {
    const { state, heartbeats } = this.#deps;
    switch (message.case) {
      case 'rows':
        this.#rowParts.add(message.value);
        break;
      case 'snapshot':
        state.applySnapshot(message.value, this.#rowParts.take(message.value.rowParts), helloAtMs);
        this.#noteApplied();
        this.#resolveFirst();
        break;
      case 'delta': {
        const rows = this.#rowParts.take(message.value.rowParts);
        if (state.applyDelta(message.value, rows) === 'gap')
          return new UnappliedUpdate('a change is missing');
        this.#noteApplied();
        break;
      }
      case 'heartbeat':
        if (state.heartbeat(message.value.revision, Number(message.value.answersSentAtMs))) {
          this.#noteApplied();
        }
        this.#deps.keyUses.confirm(Number(message.value.answersSentAtMs));
        heartbeats.receive(message.value, { monotonicMs: performance.now(), wallMs: Date.now() });
        break;
      // A reclaim, everywhere but on the wire.
      case 'recall':
        this.#deps.onReclaim(message.value.buckets);
        break;
      case 'evidence':
        this.#deps.onEvidence(message.value);
        break;
      case 'testConnector':
        void this.#test(message.value);
        break;
    }
    return undefined;
  }

  async #test(test: TestConnector): Promise<void> {
    const tested = await this.#deps.onTest(test);
    // Whoever asked may listen on another stream by now.
    this.#stream?.sendTested(tested);
  }

  #noteApplied(): void {
    this.#failedUpdates = 0;
    this.#updateFault = undefined;
  }

  #noteFailedUpdate(reason: Error): void {
    this.#failedUpdates++;
    if (this.#failedUpdates < MAX_FAILED_UPDATES) return;
    const wasReported = this.#updateFault !== undefined;
    this.#updateFault = `updates from the control plane cannot be applied: ${reason.message}`;
    if (wasReported) return;
    const message =
      'no update from the control plane can be applied: this proxy is not ready, learns of no revocation, and serves nothing after MAX_STALENESS_MS';
    this.#deps.logger.error({ err: reason }, message);
  }

  #refused(details: string): void {
    this.#refusal = new Error(`The control plane no longer serves this process: ${details}`);
    this.#rejectFirst(this.#refusal);
    this.#deps.logger.fatal({ err: this.#refusal }, 'another process took over this proxy; stop this one');
  }
}

/** What was sent could not be applied. */
class UnappliedUpdate extends Error {}

/** How gRPC words that a message that arrived is too large, or can't be decoded. A proxy that is cut off has other errors. */
const UNREADABLE = /^(Received message larger than max|Response message parsing error)/;

function isUnapplied(reason: unknown): reason is Error {
  if (reason instanceof UnappliedUpdate) return true;
  return reason instanceof Error && UNREADABLE.test((reason as Partial<ServiceError>).details ?? '');
}

function hasStatus(reason: unknown, status: GrpcStatus): reason is ServiceError {
  return reason instanceof Error && (reason as Partial<ServiceError>).code === status;
}
