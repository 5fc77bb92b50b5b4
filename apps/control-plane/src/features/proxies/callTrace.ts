import type { Metadata } from '@grpc/grpc-js';
import type { Tracing } from '@weighbridge/runtime';

/** Answers a proxy's call within a span of its proxy's trace. */
export async function traceCall<Answer>(
  tracing: Tracing | undefined,
  call: string,
  metadata: Metadata,
  run: () => Promise<Answer>,
): Promise<Answer> {
  if (!tracing) return await run();
  const span = tracing.begin(`weighbridge.ControlService/${call}`, {
    kind: 'server',
    parent: metadata.getMap(),
    attributes: { 'rpc.system.name': 'grpc', 'rpc.method': call },
  });
  let errorType: string | undefined = 'error';
  try {
    const answer = await run();
    errorType = undefined;
    return answer;
  } finally {
    span.end(errorType);
  }
}
