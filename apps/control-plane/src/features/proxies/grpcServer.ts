import { Server } from '@grpc/grpc-js';
import { ControlService, grpcService, serverCredentials, type TlsFiles } from '@weighbridge/contracts';
import type { Logger, Metrics, Tracing } from '@weighbridge/runtime';
import { takeFeedback } from '../feedback/feedback.service.ts';
import { lease } from '../leases/leases.service.ts';
import { createRecalls } from '../leases/recalls.ts';
import type { ModelDeps } from '../models/models.service.ts';
import { ownerOfResponse, recordResponse } from '../responses/responses.service.ts';
import { createCallMetrics } from './callMetrics.ts';
import { traceCall } from './callTrace.ts';
import { feedbackResult, ownershipMessage } from './messages.ts';
import { endEpoch } from './producers.service.ts';
import { countLive } from './proxies.repository.ts';
import { resolveKey } from './proxies.service.ts';
import type { Watchers } from './watch.ts';

export interface GrpcServerOptions {
  readonly host: string;
  readonly port: number;
  /** What a proxy has to show; undefined where the deployment set none. */
  readonly token: string | undefined;
  /** Undefined: plain text. */
  readonly tls: TlsFiles | undefined;
}

export interface GrpcServer {
  readonly address: string;
  close(): Promise<void>;
}

const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const KEEPALIVE_MS = 10_000;
const CLOSE_GRACE_MS = 2_000;

/** Serves the proxies. */
export async function listenGrpc(
  deps: ModelDeps & {
    readonly logger: Logger;
    readonly watchers: Watchers;
    readonly metrics: Metrics;
    readonly tracing: Tracing | undefined;
  },
  options: GrpcServerOptions,
): Promise<GrpcServer> {
  const { db, now } = deps;
  const leases = { db, now, countLive: () => countLive(db), recall: createRecalls(db) };
  const count = createCallMetrics(deps.metrics);
  const service = grpcService(
    ControlService,
    {
      watch: (stream) => deps.watchers.add(stream),
      resolve: async ({ tokenSha256 }) => await resolveKey(deps, tokenSha256),
      recordResponse: async (made) => {
        await recordResponse(deps, made);
        return {};
      },
      findResponse: async ({ responseId, principalId }) =>
        ownershipMessage(await ownerOfResponse(deps, responseId, principalId)),
      lease: async (request) => await lease(leases, request),
      recordFeedback: async (said) => ({ result: feedbackResult(await takeFeedback(deps, said)) }),
      closeEpoch: async (ended) => ({ isClosed: await endEpoch(deps, ended) }),
    },
    {
      token: options.token,
      around: (call, metadata, run) => count(call, () => traceCall(deps.tracing, call, metadata, run)),
      onError: (error) => deps.logger.error({ err: error }, 'a call of a proxy failed'),
    },
  );
  const server = new Server({
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
  });
  server.addService(service.definition, service.implementation);
  const port = await bind(server, options);
  return {
    address: `${options.host}:${port}`,
    async close() {
      // From here on nobody new is taken; who watches goes to another control plane at once, rather than when it is cut.
      const ended = deps.watchers.close();
      const cut = setTimeout(() => server.forceShutdown(), CLOSE_GRACE_MS);
      await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
      clearTimeout(cut);
      await ended;
    },
  };
}

function bind(server: Server, { host, port, tls }: GrpcServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync(`${host}:${port}`, serverCredentials(tls), (error, bound) => {
      if (!error) return resolve(bound);
      reject(
        new Error(`Can't serve gRPC on ${host}:${port}: choose another port by GRPC_PORT`, { cause: error }),
      );
    });
  });
}
