import {
  isAccountLimited,
  type LimitWithoutHeadroom,
  limitWithoutHeadroom,
  type RateBook,
  type RateReservation,
} from '@weighbridge/budget';
import { AppError } from '@weighbridge/errors';
import type { RoutableConnector } from '@weighbridge/state';
import type { Target } from '../control/target.ts';
import { assertAllowed } from '../routing/allowedModels.ts';
import { type NextTarget, TargetSelector, type TargetSelectorDeps } from '../routing/targetSelector.ts';
import { isNotTranslatable } from '../translation/notTranslatable.ts';
import type { ConnectorHealth } from '../upstream/connectorHealth.ts';
import type { CredentialCheck } from '../upstream/credentialCheck.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { isBusy, isRedirect, redirectError, upstreamError } from '../upstream/upstreamErrors.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import {
  AccountAdmission,
  type AccountDeps,
  isAccountWithLimits,
  type TargetPermit,
} from './accountAdmission.ts';
import { type AskForPermit, type Attempt, settleHolds } from './attempt.ts';
import type { ClientConnection } from './clientConnection.ts';
import {
  type CredentialRefusal,
  connectorUnauthorized,
  mayRefuseCredential,
  readCredentialRefusal,
} from './credentialRefusal.ts';
import { isForAnyone, readObjectRefusal } from './objectRefusal.ts';
import type { GenerationPlan } from './plan.ts';
import type { PreparedRequest } from './preparedRequest.ts';
import type { RecentFailures } from './recentFailures.ts';
import type { RequestAttempts } from './requestAttempts.ts';
import { rateTokens } from './reservationEstimate.ts';
import { skippedText } from './skippedModels.ts';
import { SupersededResponse } from './supersededResponse.ts';
import {
  type FailureReason,
  ON_REFUSAL,
  PROVIDER_FAILURES,
  RENEWED,
  retryAfterMs,
  type Verdict,
  verdictOnError,
  verdictOnStatus,
} from './verdict.ts';

export interface RetryLimits {
  /** Attempts beyond the first. */
  readonly maxRetries: number;
  /** Counted from the first attempt; the duration of attempts that timed out is left out. */
  readonly retryWithinMs: number;
}

export interface FailoverDeps extends TargetSelectorDeps, AccountDeps {
  readonly health: ConnectorHealth;
  readonly rates: Pick<RateBook, 'admit' | 'settle' | 'undo'>;
  readonly retries: RetryLimits;
  readonly recentFailures: RecentFailures;
  /**
   * Called for each attempt that another one replaces, and for each connector that was skipped: as busy, because its account has nothing
   * left of its limits, or because a further limit of a policy has no headroom for its model.
   */
  readonly onFailover: (
    connectorId: string,
    reason: FailureReason | 'busy' | 'account_limit' | 'limit',
  ) => void;
  /** Called for each response that refuses a connector's credential, and with 0 for want of an access token. */
  readonly onUnauthorized: (connector: RoutableConnector, status: number) => void;
  readonly upstreams: Upstreams;
  /** Told of each response that may do so. */
  readonly credentials: Pick<CredentialCheck, 'suspect'>;
}

export interface GenerationForwarding {
  readonly plan: GenerationPlan;
  readonly client: ClientConnection;
  readonly attempts: RequestAttempts;
}

/** The attempt whose response the client gets. */
export interface Delivered {
  readonly attempt: Attempt;
  readonly response: UpstreamResponse;
  /** How long vendors took, over all attempts, in milliseconds. */
  readonly upstreamMs: number;
}

/**
 * Tries targets until one delivers the first byte of a final response: from then on nothing is tried again. If no target
 * is left, the client gets the last error response that is not about a credential; if there was none, the last failure; if
 * nothing was sent, the first refusal, but that of a further limit only if there is no other.
 */
export function failOver(deps: FailoverDeps, forwarding: GenerationForwarding): Promise<Delivered> {
  return new Failover(deps, forwarding).run();
}

class Failover {
  readonly #deps: FailoverDeps;
  readonly #plan: GenerationPlan;
  readonly #client: ClientConnection;
  readonly #attempts: RequestAttempts;
  readonly #selector: TargetSelector;
  #admission: AccountAdmission | undefined;
  readonly #startedAt = performance.now();
  /** Total duration of the attempts that timed out. */
  #timedOutMs = 0;
  #upstreamMs = 0;
  #sent = 0;
  #superseded: SupersededResponse | undefined;
  /** The error of the last attempt that was sent. */
  #failure: unknown;
  /** Why attempts were not sent. */
  #refusal: unknown;
  /** A failed target was not tried again, since a request of the same key failed there a moment ago. */
  #isLimited = false;
  #hasGivenUp = false;

  constructor(deps: FailoverDeps, { plan, client, attempts }: GenerationForwarding) {
    this.#deps = deps;
    this.#plan = plan;
    this.#client = client;
    this.#attempts = attempts;
    this.#selector = new TargetSelector(deps, plan.targets);
  }

  async run(): Promise<Delivered> {
    let next: Next | undefined = this.#choose();
    while (next) {
      const { target, pauseMs, permit: given } = next;
      if (pauseMs > 0) {
        await this.#client.pause(pauseMs);
        if (this.#isOver) break;
      }
      let rates: RateReservation | undefined;
      try {
        const admitting = this.#admitByLimits(target);
        rates = admitting instanceof Promise ? await admitting : admitting;
      } catch (error) {
        settleHolds(this.#deps, { account: given }, undefined);
        this.#skip(target, error);
        next = await this.#chooseOrWait();
        continue;
      }
      const reportResult = this.#deps.health.begin(target.connector);
      let prepared: PreparedRequest;
      try {
        const preparing = this.#plan.preparation.forTarget(target, this.#attempts.key);
        prepared = preparing instanceof Promise ? await preparing : preparing;
      } catch (error) {
        reportResult('unknown');
        settleHolds(this.#deps, { account: given, rates }, undefined);
        this.#skip(target, error);
        next = await this.#chooseOrWait();
        continue;
      }
      const attempt = this.#attempts.start();
      const holds = { account: given, askForAccount: this.#asking(target), rates };
      const running = attempt.run(prepared, holds);
      if (running) await running;
      if (attempt.state === 'released') {
        reportResult('unknown');
        if (attempt.error === this.#refused) throw attempt.error;
        this.#skip(target, attempt.error);
        next = await this.#chooseOrWait();
        continue;
      }
      if (this.#needsPermit(target)) this.#accounts.heard(target.connector, this.#attempts.key, attempt);
      const refusal = mayRefuseCredential(attempt)
        ? await readCredentialRefusal(attempt, this.#client.memory)
        : undefined;
      const isRenewed = refusal !== undefined && (await this.#renewToken(target, attempt, refusal));
      const verdict = this.#judge(target, attempt, refusal, isRenewed);
      reportResult(verdict.result);
      next = verdict.retry && this.#choose();
      if (next && verdict.retry) this.#deps.onFailover(target.connector.id, verdict.retry);
      else if (verdict.retry) this.#giveUp(verdict.retry);
      else if (verdict !== CANCELLED) this.#deps.recentFailures.forget(this.#attempts.key.id, target);
      if (attempt.state !== 'answered')
        this.#failure = upstreamError(attempt.error, target.connector.provider);
      else if (refusal && refusal.about !== 'request')
        await this.#hideRefusal(target, attempt, refusal, isRenewed);
      else if (next) await this.#supersede(target, attempt);
      else return this.#deliver(attempt, refusal?.response);
    }
    return await this.#deliverLastError();
  }

  /** Why no vendor may get the request. */
  get #refused(): AppError | undefined {
    const { objects } = this.#plan;
    return objects?.isRefused ? objects.notFound : undefined;
  }

  /** An access token may be revoked before it expires: whether the connector has another one now. */
  async #renewToken({ connector }: Target, attempt: Attempt, { about }: CredentialRefusal): Promise<boolean> {
    const { status, token } = attempt.response;
    // AWS says 403.
    if (token === undefined || (status !== 401 && about !== 'credential')) return false;
    return await this.#deps.upstreams.renewToken(connector, token);
  }

  get #isOver(): boolean {
    const { hasDisconnected, cancellation } = this.#client;
    return this.#sent > this.#deps.retries.maxRetries || hasDisconnected || cancellation.isCancelled;
  }

  /** Made for the first account with limits: most requests meet none. */
  get #accounts(): AccountAdmission {
    this.#admission ??= new AccountAdmission(this.#deps, this.#plan, this.#client);
    return this.#admission;
  }

  #asking(target: Target): AskForPermit | undefined {
    return this.#needsPermit(target) ? () => this.#accounts.ask(target, this.#attempts.key) : undefined;
  }

  /** Counts an attempt at the target in the rates of further limits; undefined if none counts it. Throws or rejects with a 429. */
  #admitByLimits(target: Target): RateReservation | undefined | Promise<RateReservation> {
    const { preparation, generation } = this.#plan;
    const counted = preparation.limitRatesFor(target, this.#attempts.key);
    if (counted.length === 0) return undefined;
    return this.#deps.rates.admit(counted, rateTokens(this.#deps.usualTokens, generation, target.model));
  }

  /** What is not billed has limits of its own at vendors. */
  #needsPermit({ connector }: Target): boolean {
    return isAccountWithLimits(connector) && this.#plan.operation.isBilled;
  }

  /** The next target; if nothing was sent, and the accounts of those that are left have nothing left, once one of them has. */
  async #chooseOrWait(): Promise<Next | undefined> {
    const next = this.#choose();
    if (next || this.#sent > 0 || this.#isOver) return next;
    const granted = await this.#admission?.wait(this.#attempts.key);
    if (!granted) return undefined;
    try {
      // It may have been revoked, or held to other models, meanwhile.
      await this.#attempts.refreshKey();
      assertAllowed(this.#attempts.key, granted.target.model);
    } catch (error) {
      this.#deps.accounts.settle(granted.permit, undefined);
      throw error;
    }
    return { ...granted, pauseMs: 0 };
  }

  #choose(): Next | undefined {
    if (this.#isOver) return undefined;
    const nowMs = performance.now();
    const leftMs = this.#deps.retries.retryWithinMs - (nowMs - this.#startedAt - this.#timedOutMs);
    return this.#selector.next(nowMs, leftMs);
  }

  /**
   * Nothing was sent, and nothing is held. If the connector is busy, or its account at its limit, others may not be; what can't be
   * translated for one vendor may pass to another; a further limit may not count other models; if the budget of a policy or spool space
   * is short, only free models remain.
   */
  #skip(target: Target, error: unknown): void {
    const limit = limitWithoutHeadroom(error);
    if (this.#refusal === undefined || isAccountLimited(this.#refusal) || this.#isYielding(error)) {
      this.#refusal = error;
    }
    if (limit) this.#skipLimited(target, limit);
    else if (isAccountLimited(error)) {
      this.#deps.onFailover(target.connector.id, 'account_limit');
      this.#selector.exclude(target.connector);
    } else if (isBusy(error)) {
      this.#deps.onFailover(target.connector.id, 'busy');
      this.#selector.exclude(target.connector);
    } else if (isNotTranslatable(error)) this.#selector.excludeTarget(target);
    else this.#selector.restrictToFree(target);
  }

  /** Whether the refusal of a further limit gives way to this one: no other model would have got around it, or a retry may help. */
  #isYielding(error: unknown): boolean {
    const before = limitWithoutHeadroom(this.#refusal);
    const limit = limitWithoutHeadroom(error);
    if (!before) return false;
    return limit ? limit.isPassing && !before.isPassing : !isNotTranslatable(error);
  }

  /**
   * A limit has no headroom for a model, at any of its accounts. What is left of it may do for a cheaper one that it counts; but not
   * if that can't be had now: this request has waited for it already.
   */
  #skipLimited({ model, connector }: Target, { id, name, isPassing }: LimitWithoutHeadroom): void {
    const { limits, limitRates } = this.#attempts.key;
    const limit = isPassing ? [...limits, ...limitRates].find((one) => one.id === id) : undefined;
    this.#selector.excludeModels((other) => other === model.id || limit?.counts(other) === true);
    if (this.#plan.profile === undefined) return;
    this.#attempts.skip(model.id, name);
    this.#client.headers.set('x-svc-skipped', skippedText(this.#attempts.skipped));
    this.#deps.onFailover(connector.id, 'limit');
  }

  /** What an attempt that was sent means for its connector and for the request. */
  #judge(
    target: Target,
    attempt: Attempt,
    refusal: CredentialRefusal | undefined,
    isRenewed: boolean,
  ): Verdict {
    this.#sent++;
    this.#upstreamMs += attempt.waitedMs;
    this.#client.headers.set('x-svc-attempts', String(this.#sent));
    const verdict = this.#client.cancellation.isCancelled
      ? CANCELLED
      : isRenewed
        ? RENEWED
        : this.#verdictOn(target, attempt, refusal);
    const wasUnidentified = verdict.retry === 'credential' && attempt.state !== 'answered';
    if (wasUnidentified) this.#deps.onUnauthorized(target.connector, 0);
    // An identity provider that hangs is no reason to leave out the next connector, either.
    if (verdict.retry === 'timeout' || wasUnidentified) this.#timedOutMs += attempt.waitedMs;
    if (verdict.retry) this.#recordFailure(target, attempt, verdict.retry, isRenewed);
    return verdict;
  }

  #recordFailure(target: Target, attempt: Attempt, reason: FailureReason, isRenewed: boolean): void {
    if (reason === 'credential' && !isRenewed) this.#selector.exclude(target.connector);
    else this.#selector.recordFailure(target, performance.now(), requestedPauseMs(attempt, this.#deps.now()));
    if (PROVIDER_FAILURES.has(reason)) this.#selector.recordProviderFailure(target);
    if (!this.#deps.recentFailures.has(this.#attempts.key.id, target)) return;
    this.#isLimited = true;
    this.#selector.excludeTarget(target);
  }

  /**
   * No other attempt may help. What was retried here, the client's SDK must not retry as well: their tries would multiply. A
   * vendor's wish that is left to the client, a long pause, stays one.
   */
  #giveUp(reason: FailureReason): void {
    if (this.#sent === 1 && !this.#isLimited) return;
    this.#hasGivenUp = true;
    this.#client.headers.set('x-should-retry', 'false');
    // Locks are free again soon.
    if (reason === 'conflict' || reason === 'request_timeout') return;
    for (const target of this.#selector.failed) {
      this.#deps.recentFailures.note(this.#attempts.key.id, target);
    }
  }

  #verdictOn({ connector }: Target, attempt: Attempt, refusal: CredentialRefusal | undefined): Verdict {
    const verdict = verdictOn(attempt, refusal);
    if (verdict !== ON_REFUSAL.unclear) return verdict;
    const isDead = this.#deps.health.state(connector) === 'dead';
    this.#deps.credentials.suspect(connector, attempt.response.status, this.#attempts.key.principalId);
    // It stays dead until something is accepted.
    return isDead ? ON_REFUSAL.credential : verdict;
  }

  async #supersede(target: Target, attempt: Attempt): Promise<void> {
    await attempt.supersede();
    this.#superseded = new SupersededResponse(attempt, this.#client.memory);
    const { provider } = target.connector;
    const message = `The vendor ${provider} answered with status ${attempt.response.status}. Try again.`;
    this.#failure = new AppError('upstream', 'upstream_error', message);
  }

  /** The vendor's words are about its account here: they are for the operator, not for the client. */
  async #hideRefusal(
    { connector }: Target,
    attempt: Attempt,
    { about }: CredentialRefusal,
    isRenewed: boolean,
  ): Promise<void> {
    await attempt.supersede();
    if (about === 'credential' && !isRenewed) this.#deps.onUnauthorized(connector, attempt.response.status);
    this.#failure = connectorUnauthorized(connector.provider, about);
  }

  #deliver(attempt: Attempt, response = attempt.response): Delivered | Promise<Delivered> {
    return response.status < 300
      ? { attempt, response: this.#asLast(response), upstreamMs: this.#upstreamMs }
      : this.#deliverRefusal(attempt, response);
  }

  async #deliverRefusal(attempt: Attempt, answered: UpstreamResponse): Promise<Delivered> {
    const { objects } = this.#plan;
    let response: UpstreamResponse | undefined = answered;
    if (objects?.notFound) {
      response = await readObjectRefusal(attempt, answered, objects, this.#client.memory);
      if (!response) throw this.#notFound(objects.notFound);
    }
    if (isRedirect(response)) await refuseRedirect(attempt);
    return { attempt, response: this.#asLast(response), upstreamMs: this.#upstreamMs };
  }

  /** The vendor's own word on retries does not count after the service has retried. */
  #asLast(response: UpstreamResponse): UpstreamResponse {
    if (!this.#hasGivenUp || response.headers['x-should-retry'] === undefined) return response;
    const { 'x-should-retry': _vendors, ...headers } = response.headers;
    return { status: response.status, headers, body: response.body };
  }

  /** As for an object that no vendor is asked for: without an attempt. */
  #notFound(error: AppError): AppError {
    this.#client.headers.delete('x-svc-attempts');
    return error;
  }

  async #deliverLastError(): Promise<Delivered> {
    const { objects } = this.#plan;
    const isSent = this.#sent > 0 && !this.#client.cancellation.isCancelled;
    if (isSent && objects?.notFound && !isForAnyone(objects)) throw this.#notFound(objects.notFound);
    const response = await this.#superseded?.take();
    if (!this.#superseded || !response) throw this.#failure ?? this.#refusal;
    const { attempt } = this.#superseded;
    return { attempt, response: this.#asLast(response), upstreamMs: this.#upstreamMs };
  }
}

interface Next extends NextTarget {
  /** Undefined if it is to be asked for, or is not needed. */
  readonly permit?: TargetPermit;
}

/** Settles an attempt whose response is a redirect, and rejects. */
async function refuseRedirect(attempt: Attempt): Promise<never> {
  attempt.response.body.destroy();
  await attempt.supersede();
  throw redirectError(attempt.prepared.connector.provider);
}

const CANCELLED: Verdict = { retry: undefined, result: 'unknown' };

function verdictOn(attempt: Attempt, refusal: CredentialRefusal | undefined): Verdict {
  if (refusal) return ON_REFUSAL[refusal.about];
  return attempt.state === 'answered'
    ? verdictOnStatus(attempt.response.status)
    : verdictOnError(attempt.error);
}

function requestedPauseMs(attempt: Attempt, now: Date): number | undefined {
  return attempt.state === 'answered' ? retryAfterMs(attempt.response.headers, now.getTime()) : undefined;
}
