import type { RoutingTable } from '@weighbridge/state';
import { DocumentReader } from '../formats/documentReader.ts';
import { STORED_RESPONSE } from '../formats/operation.ts';
import type { ResponseFacts } from '../formats/responseFormat.ts';
import { HeldMemory, type MemoryBudget } from '../shared/memoryBudget.ts';
import { Cancellation } from '../upstream/cancellation.ts';
import { upstreamHeaders } from '../upstream/headers.ts';
import type { Upstreams } from '../upstream/upstreams.ts';

export interface ReadStoredDeps {
  readonly table: () => RoutingTable | undefined;
  readonly upstreams: Upstreams;
  readonly memory: MemoryBudget;
}

/** Asks the vendor for a stored response. Rejects if it does not answer now. */
export type ReadStored = (
  response: { readonly responseId: string; readonly connectorId: string },
  signal: AbortSignal,
) => Promise<ResponseFacts | 'not_found'>;

const TIMEOUT_MS = 60_000;

export function createReadStored({ table, upstreams, memory }: ReadStoredDeps): ReadStored {
  return async ({ responseId, connectorId }, signal) => {
    const connectors = [...(table()?.connectors.values() ?? [])].flat();
    const connector = connectors.find(({ id }) => id === connectorId);
    if (!connector) throw new Error(`the connector ${connectorId} is not enabled`);
    const permit = upstreams.acquirePermit(connector);
    const cancellation = new Cancellation();
    const cancel = () => cancellation.cancel();
    const timer = setTimeout(cancel, TIMEOUT_MS);
    signal.addEventListener('abort', cancel);
    if (signal.aborted) cancel();
    const held = new HeldMemory(memory);
    try {
      const { dialect, path, responseFormat } = STORED_RESPONSE;
      const headers = upstreamHeaders(
        {},
        { dialect, connector, plain: true, hasBody: false, trace: undefined },
      );
      const request = {
        method: 'GET',
        path: `${path}/${encodeURIComponent(responseId)}`,
        headers,
        body: undefined,
      } as const;
      const response = await permit.send(request, cancellation);
      if (response.status !== 200) {
        response.body.destroy();
        if (response.status === 404) return 'not_found';
        throw new Error(`the vendor answered with status ${response.status}`);
      }
      const reader = new DocumentReader(responseFormat, response.headers['content-encoding'], held);
      await response.body.forEachChunk((chunk) => reader.push(chunk));
      return await reader.end();
    } finally {
      clearTimeout(timer);
      signal.removeEventListener('abort', cancel);
      held.close();
    }
  };
}
