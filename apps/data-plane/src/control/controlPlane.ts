import { setTimeout as sleep } from 'node:timers/promises';
import { create, type MessageInitShape } from '@bufbuild/protobuf';
import { Client, status as GrpcStatus, type ServiceError } from '@grpc/grpc-js';
import {
  ControlService,
  callUnary,
  channelCredentials,
  type FindResponseRequestSchema,
  type FindResponseResponse,
  openBidi,
  type ProxyStatusSchema,
  type RecordResponseRequestSchema,
  type ResolveResponse,
  type TlsFiles,
  tokenMetadata,
  WatchRequestSchema,
  type WatchResponse,
} from '@weighbridge/contracts';
import type { Logger } from '@weighbridge/runtime';
import type { View } from './view.ts';

export interface ControlPlaneOptions {
  readonly address: string;
  readonly token: string | undefined;
  /** Undefined: plain text. */
  readonly tls: TlsFiles | undefined;
  readonly proxy: {
    readonly id: string;
    readonly name: string;
    readonly version: string;
    readonly maxStalenessMs: number;
  };
  /** Takes in what the stream says. */
  readonly view: View;
  /** What is told of this proxy besides what it has applied. */
  readonly load: () => { readonly inFlightRequests: number; readonly waitingUsageBytes: number };
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
  /** Resolves once there is something to route by; rejects after `timeoutMs`, at once where the token is refused. */
  readonly firstTable: (timeoutMs: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

const CALL_TIMEOUT_MS = 2_000;
const RECONNECT_MIN_MS = 100;
const RECONNECT_MAX_MS = 2_000;
/** Heartbeats come every second: after some missed ones the stream is taken for dead, whatever the socket says. */
const SILENCE_MS = 5_000;
/** For the good-bye to leave. */
const GOODBYE_MS = 50;
const STATUS_MS = 500;
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

export function connectControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { view, logger, proxy } = options;
  const client = new Client(options.address, channelCredentials(options.tls), {
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.keepalive_time_ms': 10_000,
    'grpc.max_reconnect_backoff_ms': RECONNECT_MAX_MS,
  });
  const metadata = tokenMetadata(options.token);
  const closing = new AbortController();
  let announceFirst: (refusal?: Error) => void = () => {};
  const first = new Promise<void>((resolve, reject) => {
    announceFirst = (refusal) => (refusal ? reject(refusal) : resolve());
  });
  // Only a start waits for it.
  first.catch(() => {});

  const status = (): MessageInitShape<typeof ProxyStatusSchema> => {
    const { inFlightRequests, waitingUsageBytes } = options.load();
    return {
      appliedRevision: view.position?.revision ?? 0n,
      inFlightRequests,
      waitingUsageBytes: BigInt(waitingUsageBytes),
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
            break;
        }
      });
      stream.on('error', end);
      stream.on('end', () => end('the control plane ended the stream'));
      const { id: proxyId, name, version, maxStalenessMs } = proxy;
      const resumeFrom = view.position;
      const hello = { proxyId, name, version, maxStalenessMs, ...(resumeFrom && { resumeFrom }) };
      stream.write(create(WatchRequestSchema, { message: { case: 'hello', value: hello } }));
      report();
    });
  }

  async function watch(): Promise<void> {
    let pause = RECONNECT_MIN_MS;
    while (!closing.signal.aborted) {
      const began = Date.now();
      const reason = await watchOnce();
      if (isRefused(reason)) announceFirst(wrongToken(options));
      if (closing.signal.aborted) return;
      if (Date.now() - began > RECONNECT_MAX_MS) pause = RECONNECT_MIN_MS;
      logger.warn({ reason: String(reason) }, 'the stream from the control plane broke; reconnecting');
      // Spread out, so that a control plane that comes back is not met by all proxies at once.
      await sleep(pause * (0.5 + Math.random()), undefined, { signal: closing.signal }).catch(() => {});
      pause = Math.min(pause * 2, RECONNECT_MAX_MS);
    }
  }

  const watching = watch();
  const call = { timeoutMs: CALL_TIMEOUT_MS, metadata };
  return {
    resolve: (tokenSha256) => callUnary(client, ControlService.method.resolve, { tokenSha256 }, call),
    recordResponse: (response) => callUnary(client, ControlService.method.recordResponse, response, call),
    findResponse: (response) => callUnary(client, ControlService.method.findResponse, response, call),
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

function isRefused(reason: unknown): boolean {
  return reason instanceof Error && (reason as Partial<ServiceError>).code === GrpcStatus.UNAUTHENTICATED;
}

function wrongToken({ address, token }: ControlPlaneOptions): Error {
  const what = token === undefined ? 'is missing' : 'is not the one that it was given';
  return new Error(`The control plane at ${address} refuses this data plane: CONTROL_PLANE_TOKEN ${what}.`);
}
