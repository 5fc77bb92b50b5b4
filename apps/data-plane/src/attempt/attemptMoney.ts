import { bucketsOf, type Counts, type LeaseBook, NO_COUNTS, type Reservation } from '@weighbridge/budget';
import { Outcome } from '@weighbridge/contracts';
import { type Estimate, type NanoUsd, NO_TOKENS, type TokenUsage, totalTokens } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import {
  countBudgets,
  type Payer,
  payerFrom,
  payerOf,
  priceAt,
  type ResolvedKey,
  type RoutingTable,
} from '@weighbridge/state';
import {
  type AttemptCounts,
  type AttemptEnd,
  type BilledRequest,
  eventHead,
  eventShard,
  eventTail,
  isBeyondLedger,
  LIST_PRICE_DETAILS,
} from '@weighbridge/usage';
import type { AttemptRecord, UsageLog } from '@weighbridge/usage/recording';
import type { CountTokens } from '../formats/tokenCounter.ts';
import {
  type Charge,
  type ChargedAttempt,
  chargeFor,
  chargeReservation,
  isNothing,
  type ReservationCharge,
} from './charge.ts';
import { droppedFields } from './droppedFields.ts';
import { outputLimitOf } from './outputLimitOf.ts';
import type { ModelRequest, PreparedRequest } from './preparedRequest.ts';
import { type PricedCharge, priceCharge } from './priceCharge.ts';
import { estimateReservation } from './reservationEstimate.ts';
import { type SkippedModel, skippedModels } from './skippedModels.ts';

export interface MoneyDeps {
  readonly usage: UsageLog;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle'>;
  /** How many output tokens the responses of a model usually stay below; undefined if it was never measured. */
  readonly usualTokens: (model: string) => number | undefined;
  /** Called for an attempt under a hard budget that cost more than its reservation. */
  readonly onReserveExceeded: (model: string) => void;
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly countTokens: CountTokens;
  /** Has the prices of other models that worked on a response. */
  readonly table: () => RoutingTable | undefined;
  readonly logger: Logger;
}

const NO_MODELS: readonly string[] = [];

/** A request, with the key whose budgets pay for it. */
export interface PayingRequest extends BilledRequest {
  readonly key: ResolvedKey;
}

/** Counts the attempts of one request, and the tokens that they used. */
export interface AttemptCounter {
  /** The number of the next attempt of the request, and of the next one on a model, both from 1. */
  next(model: string): { readonly attempt: number; readonly modelAttempt: number };
  /** To be called once an attempt on a model is recorded. */
  recorded(model: string): void;
  usedTokens: number;
  /** The models that the request passed over before this attempt. */
  readonly skipped: readonly SkippedModel[];
}

/**
 * The money of an attempt that is billed: what its budgets hold of it, and its record in the spool. It has no states of its
 * own: the attempt decides what comes when (attempt.ts), and the record has its own (packages/usage). In this order:
 *
 * 1. `tryReserve`, or `reserve` where this proxy's leases do not suffice: the budgets hold the estimated cost.
 * 2. `record`, and `ensureRecorded` before the first byte: the spool has the INTENT.
 * 3. `charge` decides what it cost, and `settle` charges that in place of the reservation, and writes the SETTLE;
 *    or `release`, if nothing was sent.
 */
export class AttemptMoney {
  readonly #deps: MoneyDeps;
  /** Its `key` changes if the attempt refreshes it. */
  readonly #request: PayingRequest;
  readonly #counter: AttemptCounter;
  #prepared: PreparedRequest | undefined;
  #estimate: Estimate | undefined;
  /** Who pays, and from which buckets: of the key as it was when this reserved. */
  #payer: Payer | undefined;
  /** Those of the payer that the attempt reserves from. */
  #budgets: Payer['budgets'] = [];
  /** Undefined if no budget limits the cost. */
  #reservation: Reservation | undefined;
  /** Undefined for a free attempt that could not be recorded. */
  #record: AttemptRecord | undefined;
  #eventId = '';
  #recordedAt = 0;

  constructor(deps: MoneyDeps, request: PayingRequest, counter: AttemptCounter) {
    this.#deps = deps;
    this.#request = request;
    this.#counter = counter;
  }

  /** Of its usage event; empty before it is recorded. */
  get eventId(): string {
    return this.#eventId;
  }

  get modelRequest(): ModelRequest {
    return this.#prepared?.modelRequest ?? unexpected('names no model');
  }

  /** Reserves the estimated cost at once; false if the leases of this proxy do not suffice. */
  tryReserve(prepared: PreparedRequest): boolean {
    const { key } = this.#request;
    this.#prepared = prepared;
    this.#estimate = estimateReservation(this.#deps.usualTokens, prepared);
    const {
      model,
      generation,
      toolModels: others = NO_MODELS,
    } = prepared.modelRequest ?? unexpected('names no model');
    const counted = generation.namesSeveralModels ? undefined : model.id;
    const payer = payerOf(key, { model: counted, others, attribution: this.#request.attribution });
    this.#payer = payer;
    // Instead of a model that is free, another one may answer.
    const isFree = model.free && !generation.namesSeveralModels;
    this.#budgets = isFree ? countBudgets(payer) : payer.budgets;
    if (this.#budgets.length === 0) return true;
    const { costNanoUsd } = this.#estimate;
    this.#reservation = this.#deps.budget.tryReserve(this.#budgets, costNanoUsd, this.#heldTokens);
    return this.#reservation !== undefined;
  }

  /**
   * Reserves once the control plane has lent enough; rejects if the budgets refuse. False if the counters of the key
   * were replaced, because a window ended or the policy's scope changed: the key has to be refreshed.
   */
  async reserve(): Promise<boolean> {
    const asked = {
      output: outputLimitOf(this.#deps.usualTokens, this.#whole, this.#reserved),
      namesOtherModels: this.#namesOtherModels,
      showsParentFigures: this.#request.key.isOperator,
    };
    const { costNanoUsd } = this.#reserved;
    const { budget } = this.#deps;
    this.#reservation = await budget.reserve(this.#budgets, costNanoUsd, asked, this.#heldTokens);
    return this.#reservation !== undefined;
  }

  get #namesOtherModels(): boolean {
    const { generation, toolModels = NO_MODELS } = this.modelRequest;
    return generation.namesSeveralModels || toolModels.length > 0;
  }

  /**
   * Records the INTENT. Nothing may be sent before that resolves, nor before `ensureRecorded`, which writes an INTENT that is
   * still queued. Rejects with a 503 if it can't be recorded.
   */
  record(): Promise<void> | undefined {
    const { usage, newEventId } = this.#deps;
    const { model, connector } = this.modelRequest;
    const eventId = newEventId();
    this.#eventId = eventId;
    const { attempt, modelAttempt } = this.#counter.next(model.id);
    const { price, source } = priceAt(model, connector);
    const billed = this.#billed();
    try {
      this.#record = usage.begin({
        eventId,
        shard: eventShard(billed.key, usage.shards),
        reserveNanoUsd: this.#reserved.costNanoUsd,
        head: eventHead(billed, {
          eventId,
          model: model.id,
          connectorId: connector.id,
          priceVersion: price.version,
          priceSource: source,
          attempt,
          modelAttempt,
          reservedCounts: this.#reservedCounts,
        }),
      });
    } catch (error) {
      return this.#notRecorded(error);
    }
    this.#recordedAt = performance.now();
    // Only now: a request counts its attempts from the first that was recorded.
    this.#counter.recorded(model.id);
    // Others of this turn join its write until the request goes out. A free attempt goes out even if the write fails.
    if (usage.isDurableOnceWritten && !model.free) return undefined;
    return usage.durable()?.catch((error) => this.#notRecorded(error));
  }

  /** The request with the buckets that this attempt reserved from. */
  #billed(): BilledRequest {
    const payer = this.#paying;
    if (payer === this.#request.key) return this.#request;
    const key = payerFrom(payer, this.#budgets, this.#reservation ? bucketsOf(this.#reservation) : []);
    const { requestId, attribution, modelRequested, streamed, admittedAtMs } = this.#request;
    return { requestId, key, attribution, modelRequested, streamed, admittedAtMs };
  }

  /** To be called directly before the request goes out; throws a 503 if the INTENT can't be written. */
  ensureRecorded(): void {
    if (!this.#deps.usage.isDurableOnceWritten) return;
    try {
      this.#record?.writeIntent();
    } catch (error) {
      throw usageBacklog(error);
    }
  }

  /** A free attempt goes on without a record, unless a limit counts it. */
  async #notRecorded(error: unknown): Promise<void> {
    if (!this.modelRequest.model.free || this.#reservation) throw usageBacklog(error);
    await this.release();
    this.#recordedAt = performance.now();
  }

  /** Returns the reservation of an attempt that was not sent. */
  release(): Promise<void> | undefined {
    if (this.#record) {
      const counts = this.#isCounted ? NOTHING_COUNTED : undefined;
      return this.settle({ ...NOTHING_USED, counts, dispatchedAt: this.#recordedAt });
    }
    if (this.#reservation) this.#deps.budget.settle(this.#reservation, 0n);
    this.#reservation = undefined;
    return undefined;
  }

  /** What the attempt is charged: its reservation if its tokens can't be counted. */
  charge(attempt: ChargedAttempt): AttemptEnd | Promise<AttemptEnd> {
    let charge: Charge | ReservationCharge | Promise<Charge | ReservationCharge>;
    try {
      charge = chargeFor(attempt, this.#whole, this.#reserved, this.#deps.countTokens);
    } catch (error) {
      charge = this.#fallBackToReservation(error);
    }
    if (!(charge instanceof Promise)) return this.#priced(attempt, charge);
    return charge
      .catch((error) => this.#fallBackToReservation(error))
      .then((counted) => this.#priced(attempt, counted));
  }

  /** The end of an attempt whose real cost stays unknown. */
  chargeReservation(): AttemptEnd {
    const { usage, estimated, costNanoUsd } = chargeReservation(this.#reserved);
    const counts = this.#reservedCounts;
    const skipped = skippedModels(this.#counter.skipped);
    return {
      ...NOTHING_USED,
      usage,
      estimated,
      costNanoUsd,
      counts,
      skipped,
      dispatchedAt: this.#recordedAt,
    };
  }

  /** Whether a limit counts it in requests or tokens. */
  get #isCounted(): boolean {
    return this.#payer?.isCounted === true;
  }

  get #reservedCounts(): AttemptCounts | undefined {
    return this.#isCounted ? { requests: 1, tokens: this.#reservedTokens } : undefined;
  }

  /** As much of a limit of requests or tokens as the money: nothing if nothing was charged, and at least the reservation where that is. */
  #countsOf(charge: Charge | ReservationCharge, usage: TokenUsage): AttemptCounts {
    if (isNothing(charge)) return NOTHING_COUNTED;
    const least = 'atLeastReserved' in charge && !charge.atLeastReserved ? 0 : this.#reservedTokens;
    return { requests: 1, tokens: Math.max(totalTokens(usage), least) };
  }

  get #reservedTokens(): number {
    const { inputTokens, outputTokens } = this.#reserved;
    return inputTokens + outputTokens;
  }

  /** What buckets of tokens hold of it. */
  get #heldTokens(): bigint {
    return this.#isCounted ? BigInt(this.#reservedTokens) : 0n;
  }

  #priced(
    { outcome, status, firstByteAt, facts, sentAt }: ChargedAttempt,
    charge: Charge | ReservationCharge,
  ): AttemptEnd {
    const { usage, details, costNanoUsd, estimated } = this.#withCost(charge);
    const { responseId } = facts;
    const counts = this.#isCounted ? this.#countsOf(charge, usage) : undefined;
    // Member by member: a spread costs several times as much, for each request.
    return {
      usage,
      details,
      costNanoUsd,
      counts,
      estimated,
      outcome,
      status,
      dispatchedAt: sentAt,
      firstByteAt,
      responseId,
      dropped: droppedFields(this.#whole),
      skipped: skippedModels(this.#counter.skipped),
    };
  }

  #withCost(charge: Charge | ReservationCharge): PricedCharge {
    if ('costNanoUsd' in charge) return { ...charge, details: LIST_PRICE_DETAILS };
    try {
      const priced = priceCharge(charge, this.modelRequest, this.#deps.table());
      if (!charge.atLeastReserved || priced.costNanoUsd >= this.#reserved.costNanoUsd) return priced;
    } catch (error) {
      return this.#fallBackToReservation(error);
    }
    return { ...chargeReservation(this.#reserved), details: LIST_PRICE_DETAILS };
  }

  #fallBackToReservation(error: unknown): ReservationCharge & PricedCharge {
    this.#logError(error, 'failed to compute the cost of an attempt; charging its reservation');
    return { ...chargeReservation(this.#reserved), details: LIST_PRICE_DETAILS };
  }

  /**
   * Charges the budgets and writes the SETTLE of a recorded attempt. Returns once it is in the spool, or can't be; with a promise
   * if others of this turn join its write.
   */
  settle(end: AttemptEnd): Promise<void> | undefined {
    const { usage, budget, now } = this.#deps;
    const record = this.#record;
    const reservation = this.#reservation;
    this.#record = undefined;
    this.#reservation = undefined;
    this.#counter.usedTokens += totalTokens(end.usage);
    if (!record) return undefined;
    // The rest of a reservation is free only once the end is written: otherwise the next start charges all of it.
    const charged = reservation && (isBeyondLedger(end) ? reservedCharge(reservation) : chargeOf(end));
    const hasRest =
      reservation && charged && isBelow(charged, reservation, this.#isCounted) && !record.isRefused;
    const unsettled = hasRest ? reservation : undefined;
    if (reservation && charged) {
      if (!unsettled) budget.settle(reservation, charged.nanoUsd, charged.counts);
      this.#checkReservation(reservation, end);
    }
    let writing: Promise<void> | undefined;
    try {
      record.settle(eventTail(end, now()));
      writing = usage.durable();
    } catch (error) {
      this.#endNotWritten(unsettled, error);
      return undefined;
    }
    if (writing) {
      return writing.then(
        () => unsettled && charged && budget.settle(unsettled, charged.nanoUsd, charged.counts),
        (error) => this.#endNotWritten(unsettled, error),
      );
    }
    if (unsettled && charged) budget.settle(unsettled, charged.nanoUsd, charged.counts);
    return undefined;
  }

  /** It stays open in the spool: the next start settles it at its reservation. */
  #endNotWritten(unsettled: Reservation | undefined, error: unknown): void {
    this.#logError(error, 'failed to write the end of an attempt; the next start charges its reservation');
    if (!unsettled) return;
    const { nanoUsd, counts } = reservedCharge(unsettled);
    this.#deps.budget.settle(unsettled, nanoUsd, counts);
  }

  #checkReservation({ amountNanoUsd, tokens }: Reservation, { costNanoUsd, counts }: AttemptEnd): void {
    const isExceeded = costNanoUsd > amountNanoUsd || (counts?.tokens ?? 0) > tokens;
    if (!this.#request.key.isHard || !isExceeded) return;
    const { model, connector } = this.modelRequest;
    const message = 'attempt under a hard budget cost more than its reservation; the vendor ignored a limit';
    this.#logError(undefined, message, connector.id);
    this.#deps.onReserveExceeded(model.id);
  }

  get #paying(): Payer {
    return this.#payer ?? unexpected('has no payer');
  }

  get #whole(): PreparedRequest {
    return this.#prepared ?? unexpected('is not prepared');
  }

  get #reserved(): Estimate {
    return this.#estimate ?? unexpected('is not estimated');
  }

  #logError(error: unknown, message: string, connectorId?: string): void {
    const { requestId } = this.#request;
    this.#deps.logger.error({ err: error, requestId, connectorId }, message);
  }
}

interface BudgetCharge {
  readonly nanoUsd: bigint;
  readonly counts: Counts;
}

function chargeOf({ costNanoUsd, counts }: AttemptEnd): BudgetCharge {
  if (!counts) return { nanoUsd: costNanoUsd, counts: NO_COUNTS };
  return {
    nanoUsd: costNanoUsd,
    counts: { requests: BigInt(counts.requests), tokens: BigInt(counts.tokens) },
  };
}

function reservedCharge({ amountNanoUsd, tokens }: Reservation): BudgetCharge {
  return { nanoUsd: amountNanoUsd, counts: { requests: 1n, tokens } };
}

/** Whether something of the reservation is free again. */
function isBelow(
  { nanoUsd, counts }: BudgetCharge,
  { amountNanoUsd, tokens }: Reservation,
  isCounted: boolean,
): boolean {
  return nanoUsd < amountNanoUsd || (isCounted && (counts.requests < 1n || counts.tokens < tokens));
}

/** A 503: usage can't be recorded, so nothing is spent. */
export function usageBacklog(cause?: unknown): AppError {
  const message = 'Usage cannot be recorded right now, so nothing was sent. Try again.';
  return new AppError('unavailable', 'usage_backlog', message, { cause });
}

function unexpected(what: string): never {
  throw new Error(`a billed attempt ${what}`);
}

const NOTHING_COUNTED: AttemptCounts = { requests: 0, tokens: 0 };
const NOTHING_USED = {
  usage: NO_TOKENS,
  details: LIST_PRICE_DETAILS,
  costNanoUsd: 0n as NanoUsd,
  estimated: false,
  outcome: Outcome.INTERRUPTED,
  status: 0,
  firstByteAt: undefined,
  responseId: '',
  dropped: [],
  skipped: [],
};
