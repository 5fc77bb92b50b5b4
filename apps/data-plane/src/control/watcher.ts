import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import { type Client, status as GrpcStatus, type Metadata, type ServiceError } from '@grpc/grpc-js';
import type {
  BucketRef,
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

/** Holds a Watch stream open, reconnects it, and applies its messages. */
export class Watcher {
  readonly #deps: WatcherDeps;
  readonly #closing = new AbortController();
  readonly #watching: Promise<void>;
  #stream: WatchStream | undefined;
  #resolveFirst: () => void = () => {};
  #rejectFirst: (error: Error) => void = () => {};
  #refusal: Error | undefined;
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
    const resumeFrom = state.position;
    const stream = new WatchStream({
      client,
      metadata,
      key,
      hello: {
        proxyId,
        producerId,
        signsUsage: true,
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
  #apply(message: WatchResponse['message'], helloAtMs: number): string | undefined {
    const { state, heartbeats } = this.#deps;
    switch (message.case) {
      case 'snapshot':
        state.applySnapshot(message.value, helloAtMs);
        this.#resolveFirst();
        break;
      case 'delta':
        if (state.applyDelta(message.value) === 'gap') return 'a change is missing';
        break;
      case 'heartbeat':
        state.heartbeat(message.value.revision, Number(message.value.answersSentAtMs));
        this.#deps.keyUses.confirm(Number(message.value.answersSentAtMs));
        heartbeats.receive(message.value, { monotonicMs: performance.now(), wallMs: Date.now() });
        break;
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

  #refused(details: string): void {
    this.#refusal = new Error(`The control plane no longer serves this process: ${details}`);
    this.#rejectFirst(this.#refusal);
    this.#deps.logger.fatal({ err: this.#refusal }, 'another process took over this proxy; stop this one');
  }
}

function hasStatus(reason: unknown, status: GrpcStatus): reason is ServiceError {
  return reason instanceof Error && (reason as Partial<ServiceError>).code === status;
}
