import { isRedirect, upstreamError } from '../upstream/upstreams.ts';
import { attemptAt, type Forwarded, type Sending } from './attempt.ts';
import { type FailoverDeps, failOver, refuseRedirect } from './failover.ts';
import type { StoredPlan } from './plan.ts';

/** Resolves with the answer for the caller, of whichever connector; rejects with what the last attempt failed of. */
export function forward(deps: FailoverDeps, sending: Sending): Promise<Forwarded> {
  const { plan } = sending;
  return plan.kind === 'generation' ? failOver(deps, sending, plan) : findKeeper(sending, plan);
}

/** Asks for a stored response wherever it may be: an account that does not have it answers 404. */
async function findKeeper(sending: Sending, { connectors }: StoredPlan): Promise<Forwarded> {
  let upstreamMs = 0;
  for (const [at, connector] of connectors.entries()) {
    const tried = await attemptAt(sending, () => ({ connector, body: undefined, work: undefined }));
    if (tried.kind !== 'answered') throw upstreamError(tried.error, connector.provider);
    upstreamMs += tried.tookMs;
    const { answer } = tried.answered;
    if (isRedirect(answer)) await refuseRedirect(sending, tried.answered);
    if (answer.status !== 404 || at === connectors.length - 1) return { ...tried.answered, upstreamMs };
    answer.body.destroy();
  }
  throw new Error('the last connector answers or fails');
}
