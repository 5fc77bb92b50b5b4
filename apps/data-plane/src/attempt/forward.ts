import type { ClientConnection } from './clientConnection.ts';
import { type Delivered, type FailoverDeps, failOver } from './failover.ts';
import { findStored } from './findStored.ts';
import type { Plan } from './plan.ts';
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
  return plan.kind === 'generation'
    ? failOver(deps, { plan, client, attempts })
    : findStored(deps, { plan, client, attempts });
}
