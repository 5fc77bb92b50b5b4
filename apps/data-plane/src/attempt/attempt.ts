import type { IncomingHttpHeaders } from 'node:http';
import { Outcome, usageShard } from '@weighbridge/contracts';
import { costOf, type Estimate, type NanoUsd, NO_TOKENS, totalTokens } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import type { LeaseBook, Reservation } from '../budget/leaseBook.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt } from '../control/routingTable.ts';
import { noFacts } from '../formats/responseFormat.ts';
import type { CountTokens } from '../formats/tokenCounter.ts';
import type { AttemptEnd, PreparedRequest } from '../observe/attempt.ts';
import type { Observer } from '../observe/observer.ts';
import type { RequestObservation } from '../observe/requestObservation.ts';
import type { RecordedAttempt, UsageLog } from '../record/usageLog.ts';
import { upstreamHeaders } from '../upstream/headers.ts';
import type { UpstreamResponse } from '../upstream/httpExchange.ts';
import { wasNeverSent } from '../upstream/upstreamErrors.ts';
import type { Upstreams } from '../upstream/upstreams.ts';
import { type Charge, chargeFor, chargeReservation, type ResponseResult } from './charge.ts';
import type { ClientConnection } from './clientConnection.ts';
import type { Plan } from './plan.ts';
import { estimateReservation } from './reservationEstimate.ts';
import { type BilledRequest, cappedCost, eventHead, eventTail } from './usageEvent.ts';

/**
 * One attempt: a request sent to one connector, from the money that is reserved for it to the money that it cost.
 *
 *   planned ─► reserved ─► recorded ─► sent ─► answered ─► settled
 *      │           │           │         │         │
 *      │           │           │         │         └─► superseded ─► settled
 *      │           │           │         └───────────► failed ─────► settled
 *      └───────────┴───────────┴─► refused ─► released
 *              recorded and later ─► abandoned ─► settled
 *
 * - `planned`: nothing is held and nothing is written.
 * - `reserved`: every budget of the key holds the estimated cost, in memory (budget/).
 * - `recorded`: the spool has its INTENT, so a crash from here on is charged the reservation (record/).
 * - `sent`: the request is on its way to the vendor.
 * - `answered`: the first byte of the response is here; the relay passes it on and settles.
 * - `refused`: nothing was sent: no headroom, no room in the spool, the connector is busy, the client disconnected.
 * - `failed`: it was sent, and no response came.
 * - `superseded`: its response is an error, and another attempt takes its place.
 * - `abandoned`: a fault of this proxy left it open.
 * - `settled`: the spool has its SETTLE and the budgets are charged what it cost. Final.
 * - `released`: the budgets have the reservation back, and nothing was charged. Final.
 *
 * An attempt that is not billed (a stored response, a count of tokens) passes through the same states, but reserves and
 * records nothing.
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
  recorded: ['sent', 'refused', 'abandoned'],
  sent: ['answered', 'failed', 'abandoned'],
  answered: ['settled', 'superseded', 'abandoned'],
  refused: ['released'],
  failed: ['settled', 'abandoned'],
  superseded: ['settled', 'abandoned'],
  abandoned: ['settled'],
  settled: [],
  released: [],
};

export interface AttemptDeps {
  readonly upstreams: Upstreams;
  readonly usage: UsageLog;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle'>;
  /** How many output tokens the responses of a model usually stay below; undefined where it was never measured. */
  readonly usualTokens: (model: string) => number | undefined;
  /** Called for an attempt under a hard budget that cost more than its reservation. */
  readonly onReserveExceeded: (model: string) => void;
  readonly observer: Pick<Observer, 'attempted'>;
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly countTokens: CountTokens;
  readonly logger: Logger;
}

/** What all attempts of one request share. */
export interface AttemptContext extends BilledRequest {
  /** Replaced by `refreshKey`. */
  readonly key: ResolvedKey;
  readonly isBilled: boolean;
  readonly plan: Plan;
  readonly headers: IncomingHttpHeaders;
  /** With the question mark; empty where there is none. */
  readonly query: string;
  readonly client: Pick<ClientConnection, 'assertWaiting' | 'cancellation'>;
  readonly observed: RequestObservation;
  /** Reads the key again from the control plane; rejects where it may not be used any more. */
  readonly refreshKey: () => Promise<void>;
}

/** Counts the attempts of one request, and the tokens that they used. */
export interface AttemptCounter {
  /** The number of the next attempt of the request, and of the next one on a model, both from 1. */
  next(model: string): { readonly attempt: number; readonly modelAttempt: number };
  /** To be called once an attempt on a model is recorded. */
  recorded(model: string): void;
  usedTokens: number;
}

export class Attempt {
  readonly #deps: AttemptDeps;
  readonly #context: AttemptContext;
  readonly #counter: AttemptCounter;
  #state: AttemptState = 'planned';
  #prepared: PreparedRequest | undefined;
  #estimate: Estimate | undefined;
  /** Undefined where no budget limits the cost. */
  #reservation: Reservation | undefined;
  /** Undefined where nothing is billed, and where a free attempt could not be recorded. */
  #record: RecordedAttempt | undefined;
  #recordedAt = 0;
  #response: UpstreamResponse | undefined;
  /** Why it was refused or failed. */
  error: unknown;
  /** Monotonic, in milliseconds. */
  sentAt = 0;
  /** How long the vendor took to answer, or to fail, in milliseconds. */
  waitedMs = 0;

  constructor(deps: AttemptDeps, context: AttemptContext, counter: AttemptCounter) {
    this.#deps = deps;
    this.#context = context;
    this.#counter = counter;
  }

  get state(): AttemptState {
    return this.#state;
  }

  /** Throws before it is prepared. */
  get prepared(): PreparedRequest {
    return this.#prepared ?? unexpected('nothing is prepared');
  }

  /** Throws where no response came. */
  get response(): UpstreamResponse {
    return this.#response ?? unexpected('no response came');
  }

  /**
   * Reserves, records and sends. Never rejects. Afterwards it is `answered`; or it was sent and failed, and is `settled`; or
   * nothing was sent, and it is `released`. In the last two cases `error` says why.
   */
  async run(prepare: (key: ResolvedKey) => PreparedRequest | Promise<PreparedRequest>): Promise<void> {
    const permit = await this.#begin(prepare).catch((error) => this.#refuse(error));
    if (permit) await this.#send(permit);
  }

  /**
   * Charges what a response cost; resolves with that once it is in the spool, with undefined where nothing is billed or it
   * was settled before. To be called before the client sees the end of the response.
   */
  settle(result: ResponseResult): Promise<NanoUsd | undefined> {
    return this.#settle(result, this.response.status, false);
  }

  /** Settles an attempt whose response is an error that the client does not get. */
  async supersede(): Promise<void> {
    this.#enter('superseded');
    await this.#settle({ ...NO_RESPONSE, outcome: Outcome.UPSTREAM_ERROR }, this.response.status, false);
  }

  /** Settles at its reservation what a fault of this proxy left open; does nothing for an attempt that has ended. */
  abandon(): void {
    if (!this.#record || this.#state === 'settled' || this.#state === 'released') return;
    this.#logError(undefined, 'attempt was left open; settled at its reservation');
    this.#enter('abandoned');
    const end = {
      ...NOT_SENT,
      ...chargeReservation(this.#requireEstimate()),
      dispatchedAt: this.#recordedAt,
    };
    this.#observe(end);
    this.#enter('settled');
    void this.#writeEnd(end);
  }

  /** planned → reserved → recorded; resolves with the permit to send. */
  async #begin(prepare: (key: ResolvedKey) => PreparedRequest | Promise<PreparedRequest>) {
    const { upstreams } = this.#deps;
    const { client } = this.#context;
    const preparing = prepare(this.#context.key);
    this.#prepared = preparing instanceof Promise ? await preparing : preparing;
    const permit = upstreams.acquirePermit(this.#prepared.connector);
    try {
      if (this.#tryReserve()) this.#enter('reserved');
      else await this.#waitForReservation(prepare);
      client.assertWaiting();
      const recording = this.#recordIntent();
      if (recording) await recording;
      return permit;
    } catch (error) {
      permit.release();
      throw error;
    }
  }

  /** Reserves at once; false where the leases of this proxy do not suffice. */
  #tryReserve(): boolean {
    const { key, isBilled } = this.#context;
    if (!isBilled) return true;
    const estimate = estimateReservation(this.#deps.usualTokens, key, this.prepared);
    this.#estimate = estimate;
    // An exhausted budget never blocks what costs nothing.
    if (this.#isFree || key.budgets.length === 0) return true;
    this.#reservation = this.#deps.budget.tryReserve(key.budgets, estimate.costNanoUsd);
    return this.#reservation !== undefined;
  }

  /** Reserves once the control plane has lent enough. */
  async #waitForReservation(
    prepare: (key: ResolvedKey) => PreparedRequest | Promise<PreparedRequest>,
  ): Promise<void> {
    const reserve = () => {
      const { budgets, isOperator } = this.#context.key;
      return this.#deps.budget.reserve(budgets, this.#requireEstimate().costNanoUsd, isOperator);
    };
    this.#reservation = await reserve();
    if (!this.#reservation) {
      // The counters were replaced: a window or the policy's scope changed. The key has the new ones.
      await this.#context.refreshKey();
      this.#prepared = await prepare(this.#context.key);
      if (!this.#tryReserve()) this.#reservation = (await reserve()) ?? raiseCountersReplaced();
    }
    this.#enter('reserved');
  }

  /** Writes the INTENT: nothing may be sent before the promise resolves. */
  #recordIntent(): Promise<void> | undefined {
    if (!this.#context.isBilled) {
      this.#enter('recorded');
      return undefined;
    }
    const { usage, newEventId } = this.#deps;
    const { key } = this.#context;
    const [policy] = key.policies;
    const modelRequest = this.#modelRequest;
    const eventId = newEventId();
    const { attempt, modelAttempt } = this.#counter.next(modelRequest.model.id);
    try {
      this.#record = usage.begin({
        eventId,
        shard: policy ? usageShard(policy.bucket) : 0,
        reserveNanoUsd: this.#requireEstimate().costNanoUsd,
        head: eventHead(this.#context, { eventId, target: modelRequest, attempt, modelAttempt }),
      });
    } catch (error) {
      return this.#notRecorded(error);
    }
    this.#recordedAt = performance.now();
    // Only now: a request counts its attempts from the first that was recorded.
    this.#counter.recorded(modelRequest.model.id);
    const durable = usage.durable();
    if (durable) return this.#waitForRecord(durable);
    this.#enter('recorded');
    return undefined;
  }

  async #waitForRecord(durable: Promise<void>): Promise<void> {
    try {
      await durable;
    } catch (error) {
      return await this.#notRecorded(error);
    }
    this.#enter('recorded');
  }

  /** A free attempt goes on without a record; any other is refused. */
  async #notRecorded(error: unknown): Promise<void> {
    if (!this.#isFree) throw usageBacklog(error);
    await this.#release();
    this.#enter('recorded');
  }

  /** recorded → sent → answered, or → failed → settled. */
  async #send(permit: ReturnType<Upstreams['acquirePermit']>): Promise<void> {
    const { plan, headers: clientHeaders, query, client, observed } = this.#context;
    const { connector, body, modelRequest } = this.prepared;
    this.#enter('sent');
    this.sentAt = performance.now();
    let status = 0;
    try {
      const headers = upstreamHeaders(clientHeaders, {
        dialect: plan.operation.dialect,
        connector,
        plain: plan.hideUsage,
        hasBody: body !== undefined,
        trace: observed.trace?.attempt(plan.operation, this.prepared),
      });
      const request = { method: plan.method, path: plan.path + query, headers, body };
      const response = await permit.send(request, client.cancellation);
      status = response.status;
      const begun = modelRequest && status < 300 ? response.body.started() : undefined;
      if (begun) await begun;
      this.#response = response;
      this.waitedMs = performance.now() - this.sentAt;
      this.#enter('answered');
    } catch (error) {
      this.error = error;
      this.waitedMs = performance.now() - this.sentAt;
      this.#enter('failed');
      const outcome = this.#outcomeOf(error);
      await this.#settle({ ...NO_RESPONSE, outcome }, status, wasNeverSent(error));
    }
  }

  #outcomeOf(error: unknown): Outcome {
    const { reason } = this.#context.client.cancellation;
    // An AppError is the reason where the service shuts down while the client is still connected.
    if (reason) return reason instanceof AppError ? Outcome.INTERRUPTED : Outcome.CLIENT_GONE;
    return wasNeverSent(error) ? Outcome.UPSTREAM_UNREACHABLE : Outcome.INTERRUPTED;
  }

  /** Nothing is sent: gives back what was reserved. */
  async #refuse(error: unknown): Promise<undefined> {
    this.error = error;
    this.#enter('refused');
    await this.#release();
    this.#enter('released');
  }

  async #release(): Promise<void> {
    if (this.#record) await this.#writeEnd({ ...NOT_SENT, dispatchedAt: this.#recordedAt });
    else if (this.#reservation) this.#deps.budget.settle(this.#reservation, 0n);
    this.#record = undefined;
    this.#reservation = undefined;
  }

  #settle(result: ResponseResult, status: number, neverSent: boolean): Promise<NanoUsd | undefined> {
    const { isBilled, observed } = this.#context;
    if (this.#state === 'settled') return Promise.resolve(undefined);
    if (!isBilled) {
      this.#enter('settled');
      const end = { outcome: result.outcome, status };
      observed.last = end;
      observed.trace?.attemptEnded(end);
      return Promise.resolve(undefined);
    }
    if (!this.#record) return Promise.resolve(undefined);
    const charge = this.#chargeFor(result, status, neverSent);
    return charge instanceof Promise
      ? charge.then((counted) => this.#charge(result, status, counted))
      : this.#charge(result, status, charge);
  }

  /** What it cost: its reservation where that can't be counted. */
  #chargeFor(result: ResponseResult, status: number, neverSent: boolean): Charge | Promise<Charge> {
    const { countTokens } = this.#deps;
    try {
      const charge = chargeFor(
        { ...result, status, neverSent },
        this.prepared,
        this.#requireEstimate(),
        countTokens,
      );
      return charge instanceof Promise ? charge.catch((error) => this.#onUncounted(error)) : charge;
    } catch (error) {
      return this.#onUncounted(error);
    }
  }

  #onUncounted(error: unknown): Required<Charge> {
    this.#logError(error, 'failed to count tokens; charging the reservation');
    return chargeReservation(this.#requireEstimate());
  }

  async #charge(result: ResponseResult, status: number, charge: Charge): Promise<NanoUsd | undefined> {
    // Settled or abandoned while its tokens were counted.
    if (!this.#record) return undefined;
    const { outcome, firstByteAt, facts } = result;
    const { usage, estimated, costNanoUsd } = this.#priced(charge);
    const end = {
      usage,
      estimated,
      costNanoUsd,
      outcome,
      status,
      dispatchedAt: this.sentAt,
      firstByteAt,
      responseId: facts.responseId,
    };
    this.#observe(end, () => result.output().text);
    this.#enter('settled');
    await this.#writeEnd(end);
    return costNanoUsd;
  }

  #priced(charge: Charge): Required<Charge> {
    const { model, connector } = this.#modelRequest;
    try {
      const cost = charge.costNanoUsd ?? costOf(charge.usage, priceAt(model, connector).price);
      return { ...charge, costNanoUsd: cappedCost(cost) };
    } catch (error) {
      return this.#onUncounted(error);
    }
  }

  /** Writes the SETTLE and charges the budgets; resolves when it is in the spool, or can't be. */
  async #writeEnd(end: AttemptEnd): Promise<void> {
    const { usage, budget, now } = this.#deps;
    const record = this.#record ?? unexpected('no record');
    const reservation = this.#reservation;
    this.#record = undefined;
    this.#reservation = undefined;
    this.#counter.usedTokens += totalTokens(end.usage);
    // The rest of a reservation is free only once the end is written: otherwise the next start charges all of it.
    const hasRest = reservation && end.costNanoUsd < reservation.amountNanoUsd && !record.isRefused;
    if (reservation && !hasRest) {
      budget.settle(reservation, end.costNanoUsd);
      this.#checkReservation(reservation, end);
    }
    let isWritten = false;
    try {
      record.settle(eventTail(end, now()));
      await usage.durable();
      isWritten = true;
    } catch (error) {
      // It stays open in the spool: the next start settles it at its reservation.
      this.#logError(error, 'failed to write the end of an attempt; the next start charges its reservation');
    }
    if (reservation && hasRest) {
      budget.settle(reservation, isWritten ? end.costNanoUsd : reservation.amountNanoUsd);
    }
  }

  #checkReservation({ amountNanoUsd }: Reservation, { costNanoUsd }: AttemptEnd): void {
    if (!this.#context.key.isHard || costNanoUsd <= amountNanoUsd) return;
    const { model, connector } = this.#modelRequest;
    const message = 'attempt under a hard budget cost more than its reservation; the vendor ignored a limit';
    this.#logError(undefined, message, connector.id);
    this.#deps.onReserveExceeded(model.id);
  }

  #observe(end: AttemptEnd, output?: () => string): void {
    this.#deps.observer.attempted(this.#context.observed, this.#modelRequest, end, output);
  }

  #enter(state: AttemptState): void {
    if (!NEXT_STATES[this.#state].includes(state)) unexpected(`${this.#state} does not lead to ${state}`);
    this.#state = state;
  }

  get #modelRequest() {
    return this.prepared.modelRequest ?? unexpected('a billed attempt names no model');
  }

  get #isFree(): boolean {
    return this.#modelRequest.model.free;
  }

  #requireEstimate(): Estimate {
    return this.#estimate ?? unexpected('nothing is estimated');
  }

  #logError(error: unknown, message: string, connectorId?: string): void {
    const { requestId } = this.#context;
    this.#deps.logger.error({ err: error, requestId, connectorId }, message);
  }
}

/** A 503: usage can't be recorded, so nothing is spent. */
export function usageBacklog(cause?: unknown): AppError {
  const message = 'Usage can not be recorded right now, so nothing was sent. Try again.';
  return new AppError('unavailable', 'usage_backlog', message, { cause });
}

function raiseCountersReplaced(): never {
  const message = 'The budget of this key changed while the request waited for it. Try again.';
  throw new AppError('unavailable', 'counter_replaced', message);
}

function unexpected(what: string): never {
  throw new Error(`attempt: ${what}`);
}

const NO_RESPONSE = {
  facts: noFacts(),
  firstByteAt: undefined,
  output: () => ({ text: '', ratio: 1 }),
};

const NOT_SENT = {
  usage: NO_TOKENS,
  costNanoUsd: 0n,
  estimated: false,
  outcome: Outcome.INTERRUPTED,
  status: 0,
  firstByteAt: undefined,
  responseId: '',
};
