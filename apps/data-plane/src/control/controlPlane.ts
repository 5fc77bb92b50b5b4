import { setTimeout as sleep } from 'node:timers/promises';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { status as GrpcStatus, type ServiceError } from '@grpc/grpc-js';
import {
  type BucketRef,
  ControlService,
  callUnary,
  type Evidence,
  type FindResponseRequestSchema,
  type FindResponseResponse,
  type LeaseRequestSchema,
  type LeaseResponse,
  openBidi,
  type ProxyStatusSchema,
  type RecordFeedbackRequestSchema,
  type RecordFeedbackResponse,
  type RecordResponseRequestSchema,
  type ResolveResponse,
  WatchRequestSchema,
  type WatchResponse,
} from '@weighbridge/contracts';
import type { Logger, Tracing } from '@weighbridge/runtime';
import { type CloseEpoch, type ControlAddress, openControlClient } from './controlClient.ts';
import type { ControlState } from './controlState.ts';
import type { HeartbeatState } from './heartbeatState.ts';

export interface ControlPlaneOptions extends ControlAddress {
  readonly tracing?: Tracing | undefined;
  readonly proxy: {
    readonly id: string;
    /** Of its spool. */
    readonly producerId: string;
    readonly name: string;
    readonly version: string;
    readonly maxStalenessMs: number;
  };
  /** Take in what the stream says. */
  readonly view: ControlState;
  readonly heartbeatState: HeartbeatState;
  /** Others need room in these buckets. */
  readonly onReclaim: (buckets: readonly BucketRef[]) => void;
  /** How models do of late. */
  readonly onEvidence: (news: Evidence) => void;
  /** What is told of this proxy besides what it has applied. */
  readonly load: () => {
    readonly inFlightRequests: number;
    readonly waitingUsageBytes: number;
    readonly markAgeMs: number;
  };
  readonly logger: Logger;
}

/** This proxy's line to the control plane. */
export interface ControlPlane {
  /** Looks a key up. Rejects when the control plane can't be reached in time. */
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
  /** Rejects when it is not on record in time. */
  readonly recordResponse: (
    response: MessageInitShape<typeof RecordResponseRequestSchema>,
  ) => Promise<unknown>;
  readonly findResponse: (
    response: MessageInitShape<typeof FindResponseRequestSchema>,
  ) => Promise<FindResponseResponse>;
  /** Rejects when it is not on record in time. */
  readonly recordFeedback: (
    feedback: MessageInitShape<typeof RecordFeedbackRequestSchema>,
  ) => Promise<RecordFeedbackResponse>;
  readonly closeEpoch: CloseEpoch;
  /** Asks for leases, and gives back; rejects when there is no answer in time. */
  readonly lease: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  /** Why the control plane will never serve this process again; undefined as long as it does. */
  readonly refusal: () => Error | undefined;
  /** Resolves once there is something to route by; rejects after `timeoutMs`, at once where this process is refused. */
  readonly firstTable: (timeoutMs: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

const RECONNECT_MIN_MS = 100;
const RECONNECT_MAX_MS = 2_000;
/** Heartbeats come every second: after some missed ones the stream is taken for dead, whatever the socket says. */
const SILENCE_MS = 5_000;
/** For the good-bye to leave. */
const GOODBYE_MS = 50;
const STATUS_MS = 500;

export function connectControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { view, heartbeatState, logger, proxy } = options;
  const { client, metadata, call, closeEpoch } = openControlClient(
    options,
    RECONNECT_MAX_MS,
    options.tracing,
  );
  const closing = new AbortController();
  let announceFirst: (refusal?: Error) => void = () => {};
  const first = new Promise<void>((resolve, reject) => {
    announceFirst = (refusal) => (refusal ? reject(refusal) : resolve());
  });
  // Only a start waits for it.
  first.catch(() => {});

  const status = (): MessageInitShape<typeof ProxyStatusSchema> => {
    const { inFlightRequests, waitingUsageBytes, markAgeMs } = options.load();
    return {
      appliedRevision: view.position?.revision ?? 0n,
      inFlightRequests,
      waitingUsageBytes: BigInt(waitingUsageBytes),
      markAgeMs: BigInt(markAgeMs),
      sentAtMs: BigInt(Math.floor(performance.now())),
    };
  };

  /** One stream, from hello to its end. */
  function watchOnce(): Promise<unknown> {
    return new Promise((resolve) => {
      const stream = openBidi(client, ControlService.method.watch, metadata);
      const helloAtMs = performance.now();
      const end = (reason: unknown): void => {
        clearTimeout(silence);
        clearInterval(reporting);
        closing.signal.removeEventListener('abort', leave);
        stream.cancel();
        resolve(reason);
      };
      const report = () => {
        // What was not read yet is as good as newer ones: nothing piles up.
        if (!stream.writableNeedDrain) {
          stream.write(create(WatchRequestSchema, { message: { case: 'status', value: status() } }));
        }
      };
      const leave = () => {
        stream.write(create(WatchRequestSchema, { message: { case: 'goodbye', value: {} } }));
        stream.end();
        setTimeout(() => end('closing'), GOODBYE_MS);
      };
      const silence = setTimeout(() => end('no heartbeat'), SILENCE_MS);
      const reporting = setInterval(report, STATUS_MS);
      closing.signal.addEventListener('abort', leave, { once: true });
      stream.on('data', ({ message }: WatchResponse) => {
        silence.refresh();
        switch (message.case) {
          case 'snapshot':
            view.applySnapshot(message.value, helloAtMs);
            announceFirst();
            report();
            break;
          case 'delta':
            if (view.applyDelta(message.value) === 'gap') end('a change was missed');
            else report();
            break;
          case 'heartbeat':
            view.heartbeat(message.value.revision, Number(message.value.answersSentAtMs));
            heartbeatState.beat(message.value, { monotonicMs: performance.now(), wallMs: Date.now() });
            break;
          case 'recall':
            options.onReclaim(message.value.buckets);
            break;
          case 'evidence':
            options.onEvidence(message.value);
            break;
        }
      });
      stream.on('error', end);
      stream.on('end', () => end('the control plane ended the stream'));
      const { id: proxyId, producerId, name, version, maxStalenessMs } = proxy;
      const resumeFrom = view.position;
      const hello = {
        proxyId,
        producerId,
        name,
        version,
        maxStalenessMs,
        ...(resumeFrom && { resumeFrom }),
      };
      stream.write(create(WatchRequestSchema, { message: { case: 'hello', value: hello } }));
      report();
    });
  }

  async function watch(): Promise<void> {
    let pause = RECONNECT_MIN_MS;
    while (!closing.signal.aborted) {
      const began = Date.now();
      const reason = await watchOnce();
      if (isOfStatus(reason, GrpcStatus.UNAUTHENTICATED)) announceFirst(wrongToken(options));
      if (closing.signal.aborted) return;
      if (isOfStatus(reason, GrpcStatus.FAILED_PRECONDITION)) {
        superseded = new Error(`The control plane does not serve this process any more: ${reason.details}`);
        announceFirst(superseded);
        logger.fatal({ err: superseded }, 'this proxy was superseded; end it');
        return;
      }
      if (Date.now() - began > RECONNECT_MAX_MS) pause = RECONNECT_MIN_MS;
      logger.warn({ reason: String(reason) }, 'the stream from the control plane broke; reconnecting');
      // Spread out, so that a control plane that comes back is not met by all proxies at once.
      await sleep(pause * (0.5 + Math.random()), undefined, { signal: closing.signal }).catch(() => {});
      pause = Math.min(pause * 2, RECONNECT_MAX_MS);
    }
  }

  let superseded: Error | undefined;
  const watching = watch();
  return {
    resolve: (tokenSha256) => callUnary(client, ControlService.method.resolve, { tokenSha256 }, call),
    recordResponse: (response) => callUnary(client, ControlService.method.recordResponse, response, call),
    recordFeedback: (feedback) => callUnary(client, ControlService.method.recordFeedback, feedback, call),
    findResponse: (response) => callUnary(client, ControlService.method.findResponse, response, call),
    closeEpoch,
    lease: (request) => callUnary(client, ControlService.method.lease, request, call),
    refusal: () => superseded,
    firstTable: async (timeoutMs) => {
      const timeout = sleep(timeoutMs, undefined, { signal: closing.signal }).then(() => {
        throw new Error(
          `The control plane at ${options.address} did not answer within ${timeoutMs} ms. Is it running?`,
        );
      });
      timeout.catch(() => {});
      await Promise.race([first, timeout]);
    },
    close: async () => {
      closing.abort();
      await watching;
      client.close();
    },
  };
}

function isOfStatus(reason: unknown, status: GrpcStatus): reason is ServiceError {
  return reason instanceof Error && (reason as Partial<ServiceError>).code === status;
}

function wrongToken({ address, token }: ControlPlaneOptions): Error {
  const what = token === undefined ? 'is missing' : 'is not the one that it was given';
  return new Error(`The control plane at ${address} refuses this data plane: CONTROL_PLANE_TOKEN ${what}.`);
}
