import type { Metadata } from '@grpc/grpc-js';
import type { Tracing } from '@weighbridge/runtime';

/** Runs the call of a proxy in a span that continues the trace of the proxy. */
export async function traceCall<Response>(
  tracing: Tracing | undefined,
  call: string,
  metadata: Metadata,
  run: () => Promise<Response>,
): Promise<Response> {
  if (!tracing) return await run();
  const span = tracing.begin(`weighbridge.ControlService/${call}`, {
    kind: 'server',
    parent: metadata.getMap(),
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': call },
  });
  let errorType: string | undefined = 'error';
  try {
    const response = await run();
    errorType = undefined;
    return response;
  } finally {
    span.end(errorType);
  }
}
