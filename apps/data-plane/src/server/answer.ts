import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import { COUNTER_REPLACED } from '../attempt/attemptLog.ts';
import type { Client } from '../attempt/client.ts';
import type { KeyCache } from '../control/keyCache.ts';
import type { Wire } from '../formats/operation.ts';
import type { Observer } from '../observe/observer.ts';
import { authenticate } from '../request/authenticate.ts';
import { type InferenceRequest, type ServeDeps, serve } from '../request/serve.ts';

export interface AnswerDeps extends ServeDeps {
  readonly keys: KeyCache;
  readonly logger: Logger;
  readonly bodyLimitBytes: number;
  /** Origins whose pages may call from a browser. */
  readonly corsOrigins: readonly string[];
  readonly observer: Observer;
}

/** Serves a request; rejects, as `serve` does, while its client can still be told by a status. */
export function answer(
  deps: AnswerDeps,
  request: InferenceRequest,
  wire: Wire,
  client: Client,
): Promise<void> {
  return serve(deps, request, client).catch(async (error) => {
    // Nothing was sent yet: with the counters that hold now, it is served as any other.
    if (!(error instanceof AppError && error.code === COUNTER_REPLACED) || client.isTaken) throw error;
    const nowMs = deps.now().getTime();
    const key = await authenticate(deps.keys, request.headers, wire, nowMs, 'refresh');
    await serve(deps, { ...request, key }, client);
  });
}
