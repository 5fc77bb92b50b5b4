import { Client } from '@grpc/grpc-js';
import {
  type CallTrace,
  ControlService,
  callUnary,
  channelCredentials,
  type TlsFiles,
  tokenMetadata,
} from '@weighbridge/contracts';
import type { Tracing } from '@weighbridge/runtime';
import type { CloseEpoch } from '@weighbridge/usage/recording';

export interface ControlAddress {
  readonly address: string;
  readonly token: string;
  /** Undefined: plain text. */
  readonly tls: TlsFiles | undefined;
}

const CALL_TIMEOUT_MS = 2_000;
/**
 * A connection to a host that is gone without a word answers nothing, and each call on it times out. So it is replaced when the
 * control plane leaves a ping unanswered, about as soon as the stream of changes is given up for silence.
 */
const PING = { 'grpc.keepalive_time_ms': 3_000, 'grpc.keepalive_timeout_ms': 5_000 };
const MAX_MESSAGE_BYTES = 16 * 1024 * 1024;

/** The gRPC client of the control plane, with the settings that all calls share. */
export function openControlClient(
  { address, token, tls }: ControlAddress,
  maxReconnectMs: number,
  tracing?: Tracing,
) {
  const client = new Client(address, channelCredentials(tls), {
    'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
    ...PING,
    'grpc.max_reconnect_backoff_ms': maxReconnectMs,
  });
  const metadata = tokenMetadata(token);
  const call = {
    timeoutMs: CALL_TIMEOUT_MS,
    metadata,
    trace: tracing && ((method: string) => traceCall(tracing, method)),
  };
  const closeEpoch: CloseEpoch = async ({ producerId, epoch, lastN, key }) => {
    const request = { producerId, epoch, lastN: [...lastN] };
    return (await callUnary(client, ControlService.method.closeEpoch, request, { ...call, key })).isClosed;
  };
  return { client, metadata, call, closeEpoch };
}

function traceCall(tracing: Tracing, method: string): CallTrace {
  const span = tracing.begin(`weighbridge.ControlService/${method}`, {
    kind: 'client',
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': method },
  });
  return { headers: span.headers, end: (error) => span.end(error ? 'error' : undefined) };
}
