import { Server } from '@grpc/grpc-js';
import {
  ControlService,
  grpcService,
  requireToken,
  serverCredentials,
  type TlsFiles,
} from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import type { Logger, Metrics, Tracing } from '@weighbridge/runtime';
import { feedbackResult, submitFeedback } from '../features/feedback/feedback.service.ts';
import { BucketTurns, leaseTurns } from '../features/leases/bucketTurns.ts';
import { grantLeases } from '../features/leases/leases.service.ts';
import { createLeaseReclaims } from '../features/leases/reclaims.ts';
import type { ModelDeps } from '../features/models/models.service.ts';
import { assertOwnCall } from '../features/proxies/ownCalls.ts';
import { closeEpoch, unsignedCalls } from '../features/proxies/producers.service.ts';
import { countLiveProxies } from '../features/proxies/proxies.repository.ts';
import { resolveKey, resolveKeys } from '../features/proxies/resolveKey.service.ts';
import type { WatchService } from '../features/proxies/watchers.service.ts';
import {
  ownersOfObjects,
  recordObjects,
  unsettledResponses,
} from '../features/responses/responses.service.ts';
import { settleResponse } from '../features/responses/settleResponse.service.ts';
import { asUnavailable } from '../shared/databaseUnavailable.ts';
import { createCallMetrics } from './callMetrics.ts';
import { traceCall } from './callTrace.ts';
import { createRefusedCalls } from './refusedCalls.ts';
import {
  finalResponse,
  ownedObjects,
  ownershipMessage,
  settlementMessage,
  unsettledMessage,
} from './responseMessages.ts';

export interface GrpcServerOptions {
  readonly host: string;
  readonly port: number;
  /** The token that proxies must send; undefined: none. */
  readonly token: string | undefined;
  /** Undefined: plain text. */
  readonly tls: TlsFiles | undefined;
  /** True: a producer's calls count without its signature, as after a rollback to release 0.1.0. */
  readonly acceptsUnsigned: boolean;
}

export interface GrpcServer {
  readonly address: string;
  close(): Promise<void>;
}

const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
const KEEPALIVE_MS = 10_000;
const CLOSE_GRACE_MS = 2_000;

/** Serves the control service to proxies. */
export async function listenGrpc(
  deps: ModelDeps & {
    /** The pool of lease calls. */
    readonly leases: Database;
    /** The pool of what a request waits for beside its leases. */
    readonly lookups: Database;
    readonly leaseConnections: number;
    readonly logger: Logger;
    readonly watchers: WatchService;
    readonly metrics: Metrics;
    readonly tracing: Tracing | undefined;
  },
  options: GrpcServerOptions,
): Promise<GrpcServer> {
  const { now, leases: db } = deps;
  const turns = new BucketTurns(leaseTurns(deps.leaseConnections));
  const leases = { db, now, turns, countLive: () => countLiveProxies(db), reclaim: createLeaseReclaims(db) };
  const lookups = { ...deps, db: deps.lookups };
  const measure = createCallMetrics(deps.metrics);
  const service = grpcService(
    ControlService,
    {
      watch: (stream) => deps.watchers.serve(stream),
      resolve: async ({ tokenSha256 }) => await resolveKey(lookups, tokenSha256),
      resolveKeys: async ({ tokenSha256s }) => await resolveKeys(lookups, tokenSha256s),
      recordResponse: async (response) => {
        await recordObjects(deps, ownedObjects(response));
        return {};
      },
      findResponse: async ({ responseId, principalId, objectIds }) => {
        const [owner, ...objects] = await ownersOfObjects(lookups, [responseId, ...objectIds], principalId);
        return ownershipMessage(owner ?? { kind: 'unknown' }, objects);
      },
      settleResponse: async (request) =>
        settlementMessage(await settleResponse(deps, finalResponse(request, options.acceptsUnsigned))),
      listUnsettledResponses: async ({ producerId }) =>
        unsettledMessage(await unsettledResponses(lookups, producerId)),
      lease: async (request) => await grantLeases(leases, request),
      recordFeedback: async (feedback) => ({ result: feedbackResult(await submitFeedback(deps, feedback)) }),
      closeEpoch: async (request) => ({ isClosed: await closeEpoch(deps, request) }),
    },
    {
      around: (call, metadata, run) =>
        measure(call, () => traceCall(deps.tracing, call, metadata, run)).catch((error) => {
          throw asUnavailable(error);
        }),
      authorize: (call) => assertOwnCall(call, unsignedCalls(deps.lookups, options.acceptsUnsigned)),
      onError: (error) => deps.logger.error({ err: error }, 'failed to answer a proxy'),
    },
  );
  const server = new Server({
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    'grpc.keepalive_time_ms': KEEPALIVE_MS,
    // With mutual TLS too: a certificate tells whose machine it is, not that it is a proxy.
    interceptors: options.token === undefined ? [] : [requireToken(options.token, createRefusedCalls(deps))],
  });
  server.addService(service.definition, service.implementation);
  const port = await bind(server, options);
  return {
    address: authority(options.host, port),
    async close() {
      // Ends the streams first: their proxies connect to another control plane at once, not after the grace period.
      const ended = deps.watchers.close();
      const grace = setTimeout(() => server.forceShutdown(), CLOSE_GRACE_MS);
      await new Promise<void>((resolve) => server.tryShutdown(() => resolve()));
      clearTimeout(grace);
      await ended;
    },
  };
}

/** Without brackets, gRPC takes an IPv6 address with a port for a name. */
export function authority(host: string, port: number): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function bind(server: Server, { host, port, tls }: GrpcServerOptions): Promise<number> {
  return new Promise((resolve, reject) => {
    const address = authority(host, port);
    server.bindAsync(address, serverCredentials(tls), (error, bound) => {
      if (!error) return resolve(bound);
      reject(new Error(`Can't serve gRPC on ${address}: set GRPC_PORT to a free port`, { cause: error }));
    });
  });
}
