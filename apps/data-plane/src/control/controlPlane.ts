import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import {
  ControlService,
  callUnary,
  type FindResponseRequestSchema,
  type FindResponseResponse,
  type LeaseRequestSchema,
  type LeaseResponse,
  type ListUnsettledResponsesRequestSchema,
  type ListUnsettledResponsesResponse,
  type RecordFeedbackRequestSchema,
  type RecordFeedbackResponse,
  type RecordResponseRequestSchema,
  type ResolveResponse,
  type SettleResponseRequestSchema,
  type SettleResponseResponse,
} from '@weighbridge/contracts';
import type { Tracing } from '@weighbridge/runtime';
import type { CloseEpoch } from '@weighbridge/usage/recording';
import { type ControlAddress, openControlClient } from './controlClient.ts';
import { LookUpBatches } from './lookUpBatches.ts';
import { RECONNECT_MAX_MS, Watcher, type WatcherOptions } from './watcher.ts';

export interface ControlPlaneOptions extends ControlAddress, WatcherOptions {
  readonly tracing?: Tracing | undefined;
}

/** This proxy's connection to the control plane: its stream and its calls. Calls reject after a time-out. */
export interface ControlPlane {
  /** Looks up a key by the hash of its token. */
  readonly resolve: (tokenSha256: Uint8Array) => Promise<ResolveResponse>;
  /** Records the owner of a stored response. */
  readonly recordResponse: (
    response: MessageInitShape<typeof RecordResponseRequestSchema>,
  ) => Promise<unknown>;
  readonly findResponse: (
    response: MessageInitShape<typeof FindResponseRequestSchema>,
  ) => Promise<FindResponseResponse>;
  /** Tells the final usage of a response that was unfinished. */
  readonly settleResponse: (
    final: MessageInitShape<typeof SettleResponseRequestSchema>,
  ) => Promise<SettleResponseResponse>;
  readonly listUnsettledResponses: (
    request: MessageInitShape<typeof ListUnsettledResponsesRequestSchema>,
  ) => Promise<ListUnsettledResponsesResponse>;
  readonly recordFeedback: (
    feedback: MessageInitShape<typeof RecordFeedbackRequestSchema>,
  ) => Promise<RecordFeedbackResponse>;
  readonly closeEpoch: CloseEpoch;
  /** Requests leases and returns unused ones. */
  readonly lease: (request: MessageInitShape<typeof LeaseRequestSchema>) => Promise<LeaseResponse>;
  /** Why the control plane will never serve this process again; normally undefined. */
  readonly refusal: () => Error | undefined;
  /** Why nothing that it sends can be applied; normally undefined. */
  readonly updateFault: () => string | undefined;
  /** Streams in a row that ended because an update could not be applied. */
  readonly failedUpdates: () => number;
  /** Resolves with the first snapshot; rejects after `timeoutMs`, and at once if this process is refused. */
  readonly firstSnapshot: (timeoutMs: number) => Promise<void>;
  readonly close: () => Promise<void>;
}

export function connectControlPlane(options: ControlPlaneOptions): ControlPlane {
  const { address, tracing } = options;
  const { client, metadata, call, closeEpoch } = openControlClient(options, RECONNECT_MAX_MS, tracing);
  const watcher = new Watcher({ ...options, client, metadata, wrongToken: () => wrongToken(options) });
  const { method } = ControlService;
  const { producerId, key } = options.proxy;
  const signed = { ...call, key };
  const lookUps = new LookUpBatches({
    resolveKeys: async (tokenSha256s) => {
      const request = { tokenSha256s: [...tokenSha256s] };
      return (await callUnary(client, method.resolveKeys, request, call)).responses;
    },
    resolve: (tokenSha256) => callUnary(client, method.resolve, { tokenSha256 }, call),
    stream: () => options.state.stream,
  });
  return {
    resolve: (tokenSha256) => lookUps.resolve(tokenSha256),
    recordResponse: (response) =>
      callUnary(client, method.recordResponse, { ...response, producerId }, signed),
    recordFeedback: (feedback) => callUnary(client, method.recordFeedback, feedback, call),
    findResponse: (response) => callUnary(client, method.findResponse, response, call),
    settleResponse: (final) => callUnary(client, method.settleResponse, { ...final, producerId }, signed),
    listUnsettledResponses: (request) => callUnary(client, method.listUnsettledResponses, request, signed),
    closeEpoch,
    lease: (request) => callUnary(client, method.lease, request, signed),
    refusal: () => watcher.refusal,
    updateFault: () => watcher.updateFault,
    failedUpdates: () => watcher.failedUpdates,
    firstSnapshot: async (timeoutMs) => {
      const timeout = sleep(timeoutMs, undefined, { signal: watcher.closing }).then(() => {
        if (watcher.updateFault) throw new Error(`The control plane at ${address}: ${watcher.updateFault}.`);
        throw new Error(
          `The control plane at ${address} did not answer within ${timeoutMs} ms. Check that it runs and that CONTROL_PLANE_ADDRESS is right.`,
        );
      });
      timeout.catch(() => {});
      await Promise.race([watcher.firstSnapshot, timeout]);
    },
    close: async () => {
      await watcher.close();
      client.close();
    },
  };
}

function wrongToken({ address, token }: ControlAddress): Error {
  const problem = token === undefined ? 'is missing' : "is not the control plane's";
  return new Error(
    `The control plane at ${address} refuses this data plane: CONTROL_PLANE_TOKEN ${problem}.`,
  );
}
