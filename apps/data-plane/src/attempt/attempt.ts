import type { IncomingHttpHeaders } from 'node:http';
import type { AccountBook, AccountPermit, RateBook, RateReservation } from '@weighbridge/budget';
import { Outcome } from '@weighbridge/contracts';
import { type NanoUsd, totalTokens } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { AttemptEnd } from '@weighbridge/usage';
import { noFacts } from '../formats/responseFormat.ts';
import type { Observer } from '../observe/observer.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import { upstreamHeaders } from '../upstream/headers.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { wasNeverSent } from '../upstream/upstreamErrors.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { type AttemptCounter, AttemptMoney, type MoneyDeps, type PayingRequest } from './attemptMoney.ts';
import type { ResponseResult } from './charge.ts';
import type { ClientConnection } from './clientConnection.ts';
import { isCancelledIfLeft } from './disconnects.ts';
import { assertMaySend, type Plan } from './plan.ts';
import type { PreparedRequest } from './preparedRequest.ts';

/**
 * One attempt: a request sent to one connector, from the money that is reserved for it to the money that it cost.
 *
 *   planned ─► reserved ─► recorded ─► sent ─► answered ─► settled
 *      │           │                     │         │
 *      │           │                     │         └─► superseded ─► settled
 *      │           │                     ├───────────► failed ─────► settled
 *      └───────────┴─────────────────────┴─► refused ─► released
 *              recorded and later ─► abandoned ─► settled
 *
 * - `planned`: nothing is reserved and nothing is recorded.
 * - `reserved`: the leases on every budget of the key hold the estimated cost, in memory (budget/).
 * - `recorded`: the spool has the INTENT, so the next start charges the reservation if this process dies (packages/usage).
 * - `sent`: the request was handed to the HTTP client, which writes an INTENT that is still queued before the first byte.
 * - `answered`: the head of a response is here; of a successful generation, its first byte too. The relay settles it.
 * - `refused`: nothing was sent: no headroom, no space in the spool, a busy connector, or the client disconnected.
 * - `failed`: no usable response came; the request may not even have left this host.
 * - `superseded`: its response is an error that is not relayed now, since another attempt follows or nothing of it may be
 *   shown (a redirect). If every later attempt fails too, the last of these responses is relayed after all.
 * - `abandoned`: a fault of this proxy left it open, so it is charged its reservation.
 * - `settled`: its charge is decided. Its SETTLE is written to the spool and its reservation is charged; if the write fails,
 *   the next start charges the reservation. Final.
 * - `released`: nothing was sent, and the reservation is returned. Final.
 *
 * An attempt that is not billed (a stored response, a count of tokens) passes through the same states, but reserves and
 * records nothing. A free attempt is sent even if it can't be recorded.
 */
export type AttemptState =
  | 'planned'
  | 'reserved'
  | 'recorded'
  | 'sent'
  | 'answered'
  | 'refused'
  | 'failed'
  | 'superseded'
  | 'abandoned'
  | 'settled'
  | 'released';

const NEXT_STATES: Readonly<Record<AttemptState, readonly AttemptState[]>> = {
  planned: ['reserved', 'refused'],
  reserved: ['recorded', 'refused'],
  recorded: ['sent', 'abandoned'],
  sent: ['answered', 'failed', 'refused', 'abandoned'],
  answered: ['settled', 'superseded', 'abandoned'],
  refused: ['released'],
  failed: ['settled', 'abandoned'],
  superseded: ['settled', 'abandoned'],
  abandoned: ['settled'],
  settled: [],
  released: [],
};

/** Rejects with a 429 if the account has nothing left. */
export type AskForPermit = () => Promise<AccountPermit>;

export interface AttemptDeps extends MoneyDeps {
  readonly upstreams: Upstreams;
  readonly accounts: Pick<AccountBook, 'settle'>;
  readonly rates: Pick<RateBook, 'settle' | 'undo'>;
  readonly observer: Pick<Observer, 'attempted' | 'sawUnknown'>;
}

/** What all attempts of one request share. */
export interface AttemptContext extends PayingRequest {
  readonly isBilled: boolean;
  readonly plan: Plan;
  readonly headers: IncomingHttpHeaders;
  /** With the question mark; empty if there is none. */
  readonly query: string;
  readonly client: Pick<ClientConnection, 'assertWaiting' | 'cancelIfLeft' | 'cancellation'>;
  readonly observed: RequestObservation;
  /** Replaces `key` by what the control plane says now; rejects if it may not be used any more. */
  readonly refreshKey: () => Promise<void>;
}

/** What an attempt holds beside money. */
export interface AttemptHolds {
  /** Undefined if the connector's account has no limits. */
  readonly account?: AccountPermit | undefined;
  /** Asks for that permit once the budgets hold the cost: a request that they refuse takes nothing of the account. */
  readonly askForAccount?: AskForPermit | undefined;
  /** Undefined if no rate of a further limit counts it. */
  readonly rates?: RateReservation | undefined;
}

/** Ends what an attempt holds. `usedTokens`: undefined if it was not sent. */
export function settleHolds(
  { accounts, rates }: Pick<AttemptDeps, 'accounts' | 'rates'>,
  holds: AttemptHolds,
  usedTokens: number | undefined,
): void {
  if (holds.account) accounts.settle(holds.account, usedTokens);
  if (!holds.rates) return;
  if (usedTokens === undefined) rates.undo(holds.rates);
  else rates.settle(holds.rates, usedTokens);
}

const NO_HOLDS: AttemptHolds = {};

type Permit = ReturnType<Upstreams['acquirePermit']>;

/** What it cost; undefined if nothing is billed or it was settled before. */
type Settled = NanoUsd | undefined;

export class Attempt {
  readonly #deps: AttemptDeps;
  readonly #context: AttemptContext;
  /** Undefined if nothing is billed. */
  readonly #money: AttemptMoney | undefined;
  #state: AttemptState = 'planned';
  #prepared: PreparedRequest | undefined;
  /** Nothing once they are settled. */
  #holds = NO_HOLDS;
  /** Why its INTENT could not be written when it was about to go out. */
  #unrecorded: unknown;
  #response: UpstreamResponse | undefined;
  /** Why it was refused or failed. */
  error: unknown;
  /** How long the vendor took to answer, or to fail, in milliseconds. */
  waitedMs = 0;
  /** Monotonic, in milliseconds. */
  #sentAt = 0;

  constructor(deps: AttemptDeps, context: AttemptContext, counter: AttemptCounter) {
    this.#deps = deps;
    this.#context = context;
    this.#money = context.isBilled ? new AttemptMoney(deps, context, counter) : undefined;
  }

  get state(): AttemptState {
    return this.#state;
  }

  get isBilled(): boolean {
    return this.#money !== undefined;
  }

  /** The id of its usage event; empty if it is not billed. */
  get eventId(): string {
    return this.#money?.eventId ?? '';
  }

  /** Throws before it is prepared. */
  get prepared(): PreparedRequest {
    return this.#prepared ?? unexpected('nothing is prepared');
  }

  /** Throws if no response came. */
  get response(): UpstreamResponse {
    return this.#response ?? unexpected('no response came');
  }

  /**
   * Reserves, records and sends what was prepared. Neither throws nor rejects. Afterwards it is `answered`; or it was sent and failed, and is `settled`; or
   * nothing was sent, and it is `released`. In the last two cases `error` says why. It settles the holds.
   */
  run(prepared: PreparedRequest, holds: AttemptHolds = NO_HOLDS): Promise<void> | undefined {
    this.#holds = holds;
    let beginning: Permit | Promise<Permit>;
    try {
      beginning = this.#begin(prepared);
    } catch (error) {
      return this.#refuse(error);
    }
    if (!(beginning instanceof Promise)) return this.#send(beginning);
    return beginning.then(
      (permit) => this.#send(permit),
      (error) => this.#refuse(error),
    );
  }

  /**
   * Charges what a response cost; returns the cost once it is in the spool or can't be written, undefined if nothing is billed
   * or it was settled before. A promise only if its tokens have to be counted, or others join its write. To be called before
   * the HTTP response to the client ends.
   */
  settle(result: ResponseResult): Settled | Promise<Settled> {
    return this.#settle(result, this.response.status, false);
  }

  /** Counts the events of the answer that the caller's dialect has no words for. */
  countUnknown(events: ReadonlyMap<string, number>): void {
    if (events.size > 0) this.#deps.observer.sawUnknown(this.prepared.connector.provider, events);
  }

  /** Settles an attempt whose response is not relayed now; errors cost nothing. */
  async supersede(): Promise<void> {
    this.#enter('superseded');
    await this.#settle({ ...NOTHING_READ, outcome: Outcome.UPSTREAM_ERROR }, this.response.status, false);
  }

  /** Settles at its reservation what a fault of this proxy left open; does nothing for an attempt that has ended. */
  abandon(): void {
    if (!NEXT_STATES[this.#state].includes('abandoned')) return;
    const { requestId } = this.#context;
    this.#deps.logger.error({ requestId }, 'bug: attempt was left open; settled at its reservation');
    this.#enter('abandoned');
    const money = this.#money;
    if (money) void this.#settleAt(money, money.chargeReservation());
    else this.#settleUnbilled(Outcome.INTERRUPTED, 0);
  }

  /** planned → reserved → recorded; returns the permit to send. */
  #begin(prepared: PreparedRequest): Permit | Promise<Permit> {
    this.#prepared = prepared;
    const permit = this.#deps.upstreams.acquirePermit(prepared.connector);
    let recording: Promise<void> | undefined;
    try {
      const money = this.#money;
      recording =
        money && !money.tryReserve(prepared)
          ? this.#waitForReservation(money).then(() => this.#record())
          : this.#record();
    } catch (error) {
      return giveUp(permit, error);
    }
    return recording
      ? recording.then(
          () => permit,
          (error) => giveUp(permit, error),
        )
      : permit;
  }

  /** reserved → recorded. */
  #record(): Promise<void> | undefined {
    this.#enter('reserved');
    const { account, askForAccount } = this.#holds;
    if (account || !askForAccount) return this.#recordReserved();
    return askForAccount().then((permit) => {
      this.#holds = { ...this.#holds, account: permit };
      return this.#recordReserved();
    });
  }

  #recordReserved(): Promise<void> | undefined {
    this.#context.client.assertWaiting();
    assertMaySend(this.#context.plan);
    const recording = this.#money?.record();
    if (recording) return recording.then(() => this.#enter('recorded'));
    this.#enter('recorded');
    return undefined;
  }

  async #waitForReservation(money: AttemptMoney): Promise<void> {
    if (await money.reserve()) return;
    await this.#context.refreshKey();
    this.#prepared = await this.#prepareAgain(money);
    if (money.tryReserve(this.#prepared) || (await money.reserve())) return;
    const message = 'The budget of this key changed while the request waited for it. Try again.';
    throw new AppError('unavailable', 'counter_replaced', message);
  }

  /** For the key as it is now: it may be held to other limits. */
  #prepareAgain({ modelRequest }: AttemptMoney): PreparedRequest | Promise<PreparedRequest> {
    const { plan, key } = this.#context;
    if (plan.kind !== 'generation') return unexpected('nothing is reserved for a stored response');
    return plan.preparation.forTarget(modelRequest, key);
  }

  /** planned, reserved or sent → refused → released. */
  #refuse(error: unknown): Promise<void> | undefined {
    this.error = error;
    this.#enter('refused');
    this.#settleHolds(undefined);
    const releasing = this.#money?.release();
    if (releasing) return releasing.then(() => this.#enter('released'));
    this.#enter('released');
    return undefined;
  }

  /** recorded → sent → answered, or → failed → settled. */
  async #send(permit: Permit): Promise<void> {
    const { plan, headers: clientHeaders, query, client, observed } = this.#context;
    const { connector, body, modelRequest, nativePath, translation } = this.prepared;
    const operation = translation?.operation ?? plan.operation;
    this.#enter('sent');
    this.#sentAt = performance.now();
    let status = 0;
    // Once the answer has begun, its relay decides.
    client.cancelIfLeft(this.#isCancelledIfLeft);
    try {
      const headers = upstreamHeaders(clientHeaders, {
        dialect: operation.dialect,
        connector,
        plain: plan.hideUsage || plan.streamsArray === true || translation !== undefined,
        hasBody: body !== undefined,
        trace: observed.trace?.attempt(operation, this.prepared),
      });
      // The query is of the caller's dialect.
      const path = nativePath ?? (translation ? operation.path : plan.path + query);
      const request = { method: plan.method, path, isNative: nativePath !== undefined, headers, body };
      const response = await permit.send(request, client.cancellation, this.#ensureRecorded);
      status = response.status;
      const begun = modelRequest && status < 300 ? response.body.started() : undefined;
      if (begun) await begun;
      client.cancelIfLeft(undefined);
      this.#response = response;
      this.waitedMs = performance.now() - this.#sentAt;
      this.#enter('answered');
    } catch (error) {
      client.cancelIfLeft(undefined);
      if (this.#unrecorded !== undefined) {
        observed.trace?.attemptEnded({ outcome: Outcome.UPSTREAM_UNREACHABLE, status });
        return await this.#refuse(this.#unrecorded);
      }
      this.error = error;
      this.waitedMs = performance.now() - this.#sentAt;
      this.#enter('failed');
      await this.#settle({ ...NOTHING_READ, outcome: this.#outcomeOf(error) }, status, wasNeverSent(error));
    }
  }

  readonly #isCancelledIfLeft = (): boolean => isCancelledIfLeft(this.prepared);

  /** Called by the HTTP client before the first byte goes out. */
  readonly #ensureRecorded = (): void => {
    try {
      this.#money?.ensureRecorded();
    } catch (error) {
      this.#unrecorded = error;
      throw error;
    }
  };

  #outcomeOf(error: unknown): Outcome {
    const { reason } = this.#context.client.cancellation;
    // An AppError is the reason if the service shuts down while the client is still connected.
    if (reason) return reason instanceof AppError ? Outcome.INTERRUPTED : Outcome.CLIENT_GONE;
    return wasNeverSent(error) ? Outcome.UPSTREAM_UNREACHABLE : Outcome.INTERRUPTED;
  }

  /** answered, failed or superseded → settled; once settled, it does nothing. */
  #settle(result: ResponseResult, status: number, neverSent: boolean): Settled | Promise<Settled> {
    if (this.#state === 'settled') return undefined;
    const money = this.#money;
    if (!money) return this.#settleUnbilled(result.outcome, status);
    const { outcome, facts, firstByteAt, output, isDocument = false } = result;
    const sentAt = this.#sentAt;
    const end = money.charge({
      outcome,
      facts,
      firstByteAt,
      output,
      isDocument,
      status,
      neverSent,
      sentAt,
    });
    return end instanceof Promise
      ? end.then((counted) => this.#settleAt(money, counted, result))
      : this.#settleAt(money, end, result);
  }

  #settleUnbilled(outcome: Outcome, status: number): undefined {
    this.#enter('settled');
    this.#settleHolds(0);
    const { observed } = this.#context;
    observed.lastAttempt = { outcome, status };
    observed.trace?.attemptEnded(observed.lastAttempt);
    return undefined;
  }

  #settleAt(money: AttemptMoney, end: AttemptEnd, result?: ResponseResult): Settled | Promise<Settled> {
    // While its tokens were counted.
    if (this.#state === 'settled') return undefined;
    const { observed } = this.#context;
    const output = result && (() => result.output().text);
    this.#deps.observer.attempted(observed, money.modelRequest, end, output);
    this.#enter('settled');
    this.#settleHolds(totalTokens(end.usage));
    const settling = money.settle(end);
    return settling ? settling.then(() => end.costNanoUsd) : end.costNanoUsd;
  }

  /** `usedTokens`: undefined if nothing was sent. */
  #settleHolds(usedTokens: number | undefined): void {
    settleHolds(this.#deps, this.#holds, usedTokens);
    this.#holds = NO_HOLDS;
  }

  #enter(state: AttemptState): void {
    if (!NEXT_STATES[this.#state].includes(state)) unexpected(`${this.#state} does not lead to ${state}`);
    this.#state = state;
  }
}

function giveUp(permit: Permit, error: unknown): never {
  permit.release();
  throw error;
}

function unexpected(what: string): never {
  throw new Error(`attempt: ${what}`);
}

const NOTHING_READ = {
  facts: noFacts(),
  firstByteAt: undefined,
  output: () => ({ text: '', ratio: 1 }),
};
