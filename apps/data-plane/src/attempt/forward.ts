import { isRedirect, upstreamError } from '../upstream/upstreamErrors.ts';
import type { ClientConnection } from './clientConnection.ts';
import { type Delivered, type FailoverDeps, failOver, refuseRedirect } from './failover.ts';
import type { Plan, StoredPlan } from './plan.ts';
import type { RequestAttempts } from './requestAttempts.ts';

/** A planned request, ready to be sent. */
export interface Forwarding {
  readonly plan: Plan;
  readonly client: ClientConnection;
  readonly attempts: RequestAttempts;
}

/** Resolves with the response for the client, from whichever connector; rejects with the failure of the last attempt. */
export function forward(deps: FailoverDeps, forwarding: Forwarding): Promise<Delivered> {
  const { plan, client, attempts } = forwarding;
  return plan.kind === 'generation' ? failOver(deps, { plan, client, attempts }) : findStored(attempts, plan);
}

/** Asks each connector for a stored response in turn: an account that does not have it answers 404. */
async function findStored(attempts: RequestAttempts, { connectors }: StoredPlan): Promise<Delivered> {
  let upstreamMs = 0;
  for (const [at, connector] of connectors.entries()) {
    const attempt = attempts.start();
    await attempt.run(() => ({ connector, body: undefined, modelRequest: undefined }));
    if (attempt.state !== 'answered') throw upstreamError(attempt.error, connector.provider);
    upstreamMs += attempt.waitedMs;
    const { response } = attempt;
    if (isRedirect(response)) await refuseRedirect(attempt);
    if (response.status !== 404 || at === connectors.length - 1) return { attempt, response, upstreamMs };
    response.body.destroy();
    await attempt.supersede();
  }
  throw new Error('the last connector answers or fails');
}
