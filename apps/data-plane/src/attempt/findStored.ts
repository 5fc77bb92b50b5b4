import { AppError } from '@weighbridge/errors';
import type { RoutableConnector } from '@weighbridge/state';
import { isRedirect, redirectError, upstreamError } from '../upstream/upstreamErrors.ts';
import type { Attempt } from './attempt.ts';
import type { ClientConnection } from './clientConnection.ts';
import {
  type CredentialRefusal,
  connectorUnauthorized,
  mayRefuseCredential,
  readCredentialRefusal,
} from './credentialRefusal.ts';
import type { Delivered, FailoverDeps } from './failover.ts';
import type { StoredPlan } from './plan.ts';
import type { RequestAttempts } from './requestAttempts.ts';
import { SupersededResponse } from './supersededResponse.ts';
import { verdictOnStatus } from './verdict.ts';

/** Connectors that are asked for one response: more would multiply a client's requests. */
const MAX_ASKED = 3;

export interface StoredForwarding {
  readonly plan: StoredPlan;
  readonly client: ClientConnection;
  readonly attempts: RequestAttempts;
}

type StoredDeps = Pick<FailoverDeps, 'onUnauthorized' | 'credentials' | 'upstreams'> & {
  readonly health: Pick<FailoverDeps['health'], 'isReady'>;
};

/**
 * Asks connectors for a stored response, one after another: an account that does not have it answers 404. If one fails, the
 * next is asked, since it may have it.
 *
 * A response on record as the caller's: if no account has it, the client gets the failure of one that may have it. Any other
 * response: the client gets it if an account has it, else one 404, which does not tell whether another principal has it. A
 * vendor's other errors would tell.
 */
export function findStored(deps: StoredDeps, forwarding: StoredForwarding): Promise<Delivered> {
  return new StoredSearch(deps, forwarding).run();
}

class StoredSearch {
  readonly #deps: StoredDeps;
  readonly #client: ClientConnection;
  readonly #attempts: RequestAttempts;
  readonly #connectors: readonly RoutableConnector[];
  readonly #isOwn: boolean;
  #upstreamMs = 0;
  /** Of the first connector that failed: its error response, or why there was none. */
  #failure: SupersededResponse | Error | undefined;
  #isNotFound = false;

  constructor(deps: StoredDeps, { plan: { connectors, isOwn }, client, attempts }: StoredForwarding) {
    const { health } = deps;
    this.#deps = deps;
    this.#client = client;
    this.#attempts = attempts;
    this.#isOwn = isOwn;
    const ready = connectors.filter((connector) => health.isReady(connector));
    const [skipped] = connectors.filter((connector) => !ready.includes(connector));
    // If none is ready, they are asked all the same.
    this.#connectors = (ready.length > 0 ? ready : connectors).slice(0, MAX_ASKED);
    if (ready.length > 0 && skipped) this.#failure = failing(skipped);
  }

  async run(): Promise<Delivered> {
    for (const [at, connector] of this.#connectors.entries()) {
      const attempt = this.#attempts.start();
      await attempt.run({ connector, body: undefined, modelRequest: undefined });
      this.#upstreamMs += attempt.waitedMs;
      const refusal = mayRefuseCredential(attempt)
        ? await readCredentialRefusal(attempt, this.#client.memory)
        : undefined;
      if (refusal && refusal.about !== 'request') await this.#hideRefusal(connector, attempt, refusal);
      else if (attempt.state === 'answered') {
        const isLast = at === this.#connectors.length - 1 && !this.#failure;
        const { response = attempt.response } = refusal ?? {};
        if (this.#isOwn ? mayEnd(attempt, isLast) : response.status < 300) {
          return this.#deliver(attempt, response);
        }
        await this.#passOver(attempt, refusal?.response !== undefined);
      } else this.#failure ??= upstreamError(attempt.error, connector.provider);
      if (this.#client.hasDisconnected || this.#client.cancellation.isCancelled) break;
    }
    return await this.#deliverLast();
  }

  /** Another connector may have what this one does not have, or could not say. */
  async #passOver(attempt: Attempt, isRead: boolean): Promise<void> {
    const { response, prepared } = attempt;
    await attempt.supersede();
    if (isRedirect(response)) {
      response.body.destroy();
      this.#failure ??= redirectError(prepared.connector.provider);
      return;
    }
    if (isRead) return;
    const passedOver = new SupersededResponse(attempt, this.#client.memory);
    if (response.status === 404) this.#isNotFound = true;
    else this.#failure ??= passedOver;
  }

  async #hideRefusal(
    connector: RoutableConnector,
    attempt: Attempt,
    { about }: CredentialRefusal,
  ): Promise<void> {
    const { status, token } = attempt.response;
    await attempt.supersede();
    // For the next request: a revoked token is replaced.
    if (token !== undefined && status === 401 && (await this.#deps.upstreams.renewToken(connector, token))) {
      this.#failure ??= connectorUnauthorized(connector.provider, about);
      return;
    }
    if (about === 'credential') this.#deps.onUnauthorized(connector, status);
    else this.#deps.credentials.suspect(connector, status, this.#attempts.key.principalId);
    this.#failure ??= connectorUnauthorized(connector.provider, about);
  }

  async #deliverLast(): Promise<Delivered> {
    if (!this.#isOwn && !this.#client.cancellation.isCancelled) throw responseNotFound();
    const last = this.#failure ?? (this.#isNotFound ? responseNotFound() : undefined);
    if (!(last instanceof SupersededResponse)) throw last ?? new Error('no connector was asked');
    const response = await last.take();
    if (!response) throw failing(last.attempt.prepared.connector);
    return { attempt: last.attempt, response, upstreamMs: this.#upstreamMs };
  }

  #deliver(attempt: Attempt, response = attempt.response): Delivered {
    return { attempt, response, upstreamMs: this.#upstreamMs };
  }
}

/**
 * The one answer for a response that no vendor has, that is another principal's, that the policy refuses, or whose id can't be
 * one: nothing in it tells which. So a vendor's own 404 is not passed on.
 */
export function responseNotFound(param = 'response_id'): AppError {
  const message =
    'There is no response with this id for this key, or the account that has it does not answer. If you are sure of the id, try again.';
  return new AppError('not_found', 'response_not_found', message, { param });
}

function failing({ provider }: RoutableConnector): AppError {
  const message = `The vendor ${provider}, which may have this response, fails at present. Try again.`;
  return new AppError('upstream', 'upstream_error', message);
}

/** Whether the client gets this answer about its own response. */
function mayEnd(attempt: Attempt, isLast: boolean): boolean {
  // A refusal that is not about the credential.
  if (attempt.response.status === 403) return true;
  return isFinal(attempt) || (isLast && isRelayable(attempt));
}

function isRelayable({ response }: Attempt): boolean {
  return response.status !== 404 && !isRedirect(response);
}

/** An answer that says what became of the response, rather than that it is not there or that the connector fails. */
function isFinal({ response }: Attempt): boolean {
  const { status } = response;
  if (status === 404 || isRedirect(response)) return false;
  // A conflict is about the response itself.
  return status === 409 || verdictOnStatus(status).retry === undefined;
}
