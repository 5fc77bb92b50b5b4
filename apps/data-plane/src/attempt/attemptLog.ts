import { Outcome, usageShard } from '@weighbridge/contracts';
import {
  balancedEstimate,
  costOf,
  type Estimate,
  hardEstimate,
  type NanoUsd,
  NO_TOKENS,
  totalTokens,
} from '@weighbridge/domain';
import { AppError, raise } from '@weighbridge/errors';
import type { Logger } from '@weighbridge/runtime';
import type { LeaseBook, Reservation } from '../budget/leaseBook.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt } from '../control/routingTable.ts';
import type { CountTokens } from '../formats/countTokens.ts';
import type { AttemptEnd, Outgoing, Work } from '../observe/attempt.ts';
import type { RecordedAttempt, UsageLog } from '../record/usageLog.ts';
import { atReserve, type Charge, chargeFor } from './charge.ts';
import type { EndedTry } from './endedTry.ts';
import { expectedOutput } from './expectedOutput.ts';
import { type Attempted, eventHead, eventTail, heldCost } from './usageEvent.ts';

export interface AttemptLogDeps {
  readonly usage: UsageLog;
  readonly budget: Pick<LeaseBook, 'reserve' | 'tryReserve' | 'settle'>;
  /** How many tokens a model's answers usually stay below; undefined where nobody has measured it. */
  readonly usualTokens: (model: string) => number | undefined;
  /** Told of an attempt under a hard budget that cost more than the vendor was allowed to write. */
  readonly onReserveExceeded: (model: string) => void;
  readonly newEventId: () => string;
  readonly now: () => Date;
  readonly countTokens: CountTokens;
  readonly logger: Logger;
}

/**
 * Writes the attempts of one request down: each before it is sent, and once what became of it. One at a time, and each
 * reserves from the budgets what it may cost.
 */
export interface AttemptLog {
  /**
   * Rejects where the budgets have no room for it, and with a 503 where it can't be written down: nothing may be sent.
   * Room may take a while to come: `caller` throws where nobody waits for the answer by then.
   */
  begin(outgoing: Outgoing, caller: { requireWaiting(): void }): Promise<void>;
  /** Settles the attempt that was begun; resolves with its cost, undefined where there was nothing to settle. */
  settle(ended: EndedTry): Promise<NanoUsd | undefined>;
  /** How many tokens the attempts that were settled took. */
  readonly usedTokens: number;
  /** Settles what a fault of this service left open, at its reserve. */
  close(): void;
}

/** What is no work of a model costs nothing and leaves nothing behind. */
export function unbilledAttempts(onEnd: (ended: EndedTry) => void): AttemptLog {
  return {
    begin: async () => {},
    async settle(ended) {
      onEnd(ended);
      return undefined;
    },
    usedTokens: 0,
    close: () => {},
  };
}

/** What a model works at. */
type Billed = Outgoing & { readonly work: Work };

interface Open {
  readonly attempt: RecordedAttempt;
  readonly outgoing: Billed;
  readonly reserve: Estimate;
  /** Undefined where nothing limits what it may cost. */
  readonly held: Reservation | undefined;
  readonly begunAt: number;
}

/** Told of an attempt when it is known what it came to, and how to learn what was written, where that is. */
export type OnAttemptEnd = (work: Work, end: AttemptEnd, output?: () => string) => void;

export function openAttemptLog(
  deps: AttemptLogDeps,
  attempted: Attempted,
  onEnd: OnAttemptEnd = () => {},
): AttemptLog {
  return new OpenAttemptLog(deps, attempted, onEnd);
}

class OpenAttemptLog implements AttemptLog {
  readonly #deps: AttemptLogDeps;
  readonly #attempted: Attempted;
  readonly #onEnd: OnAttemptEnd;
  /** The models of the attempts that were begun, in their order. */
  readonly #begunModels: string[] = [];
  #open: Open | undefined;
  usedTokens = 0;

  constructor(deps: AttemptLogDeps, attempted: Attempted, onEnd: OnAttemptEnd) {
    this.#deps = deps;
    this.#attempted = attempted;
    this.#onEnd = onEnd;
  }

  async begin({ connector, body, work }: Outgoing, caller: { requireWaiting(): void }): Promise<void> {
    if (!work) throw new Error('only what a model works at is written down');
    const { usage, budget, newEventId } = this.#deps;
    const { key } = this.#attempted;
    const { model } = work;
    const outgoing: Billed = { connector, body, work };
    const eventId = newEventId();
    const attempt = this.#begunModels.length + 1;
    const modelAttempt = this.#begunModels.filter((id) => id === model.id).length + 1;
    const head = eventHead(this.#attempted, { eventId, target: work, attempt, modelAttempt });
    const reserve = reserveOf(this.#deps, key, outgoing);
    const reserveNanoUsd = reserve.costNanoUsd;
    const holding = this.#hold(work, reserveNanoUsd);
    const held = holding instanceof Promise ? await holding : holding;
    try {
      caller.requireWaiting();
    } catch (error) {
      if (held) budget.settle(held, 0n);
      throw error;
    }
    try {
      const [policy] = key.policies;
      const shard = policy ? usageShard(policy.bucket) : 0;
      const begun = usage.begin({ eventId, shard, reserveNanoUsd, head });
      this.#open = { attempt: begun, outgoing, reserve, held, begunAt: performance.now() };
      // Only now: what was held back is no attempt, and a request is counted by its first one.
      this.#begunModels.push(model.id);
      await usage.durable();
    } catch (error) {
      const open = this.#open;
      if (open) await this.#write(open, { ...NOT_SENT, dispatchedAt: open.begunAt });
      else if (held) budget.settle(held, 0n);
      // What costs nothing may go unrecorded.
      if (model.free) return;
      throw usageBacklog(error);
    }
  }

  settle(ended: EndedTry): Promise<NanoUsd | undefined> {
    const open = this.#open;
    if (!open) return Promise.resolve(undefined);
    const { outgoing, reserve } = open;
    try {
      const charge = chargeFor(ended, outgoing, reserve, this.#deps.countTokens);
      if (!(charge instanceof Promise)) return this.#end(open, ended, charge);
      return charge.then(
        (counted) => this.#end(open, ended, counted),
        (error) => this.#endUncounted(open, ended, error),
      );
    } catch (error) {
      return this.#endUncounted(open, ended, error);
    }
  }

  close(): void {
    const open = this.#open;
    if (!open) return;
    this.#complain(undefined, 'an attempt was left open; it is settled at its reserve');
    const end = { ...NOT_SENT, ...atReserve(open.reserve), dispatchedAt: open.begunAt };
    this.#onEnd(open.outgoing.work, end);
    void this.#write(open, end);
  }

  /** Resolves when it is in the spool, or can't be. */
  async #write({ attempt, held, outgoing: { connector, work } }: Open, end: AttemptEnd): Promise<void> {
    const { usage, budget, now, onReserveExceeded } = this.#deps;
    this.#open = undefined;
    this.usedTokens += totalTokens(end.usage);
    // What it leaves of its reserve is free only once its end is written: else the next start charges the whole reserve.
    const isSpare = held && end.costNanoUsd < held.amountNanoUsd && !attempt.isRefused;
    if (held && !isSpare) {
      budget.settle(held, end.costNanoUsd);
      if (this.#attempted.key.isHard && end.costNanoUsd > held.amountNanoUsd) {
        const what = 'an attempt under a hard budget cost more than it could: its vendor ignored a limit';
        this.#complain(undefined, what, connector.id);
        onReserveExceeded(work.model.id);
      }
    }
    let isWritten = false;
    try {
      attempt.settle(eventTail(end, now()));
      await usage.durable();
      isWritten = true;
    } catch (error) {
      // It stays open in the spool: the next start settles it at its reserve.
      this.#complain(error, 'an attempt could not be settled');
    }
    if (held && isSpare) budget.settle(held, isWritten ? end.costNanoUsd : held.amountNanoUsd);
  }

  /** What an attempt may cost, held back at once where there is room; undefined where nothing limits it. */
  #hold({ model }: Work, amount: NanoUsd): Reservation | undefined | Promise<Reservation> {
    const { budgets, isOperator } = this.#attempted.key;
    // An exhausted budget never blocks what costs nothing.
    if (model.free || budgets.length === 0) return undefined;
    const { budget } = this.#deps;
    return (
      budget.tryReserve(budgets, amount) ??
      budget.reserve(budgets, amount, isOperator).then((held) => held ?? raise(counterReplaced()))
    );
  }

  #endUncounted(open: Open, ended: EndedTry, error: unknown): Promise<NanoUsd | undefined> {
    this.#complain(error, 'what was used could not be counted');
    return this.#end(open, ended, atReserve(open.reserve));
  }

  async #end(open: Open, ended: EndedTry, charge: Charge): Promise<NanoUsd | undefined> {
    // Closed meanwhile.
    if (this.#open !== open) return undefined;
    const { connector, work } = open.outgoing;
    const { usage, estimated } = charge;
    let costNanoUsd: NanoUsd;
    try {
      costNanoUsd = heldCost(charge.costNanoUsd ?? costOf(usage, priceAt(work.model, connector).price));
    } catch (error) {
      return await this.#endUncounted(open, ended, error);
    }
    const { outcome, status, dispatchedAt, firstByteAt, facts } = ended;
    const { responseId } = facts;
    const end = { usage, estimated, costNanoUsd, outcome, status, dispatchedAt, firstByteAt, responseId };
    this.#onEnd(work, end, () => ended.output().text);
    await this.#write(open, end);
    return costNanoUsd;
  }

  #complain(error: unknown, what: string, connectorId?: string): void {
    const { requestId } = this.#attempted;
    this.#deps.logger.error({ err: error, requestId, connectorId }, what);
  }
}

const NOT_SENT = {
  usage: NO_TOKENS,
  costNanoUsd: 0n,
  estimated: false,
  outcome: Outcome.INTERRUPTED,
  status: 0,
  firstByteAt: undefined,
  responseId: '',
};

/** What an attempt reserves, and is charged where nobody learns what it came to. */
function reserveOf(
  { usualTokens }: Pick<AttemptLogDeps, 'usualTokens'>,
  key: ResolvedKey,
  { body, work: { model, connector, call } }: Billed,
): Estimate {
  const size = {
    inputBytes: body?.length ?? 0,
    addedInputTokens: call.addedInputTokens,
    output: expectedOutput(call, usualTokens(model.id)),
  };
  const { price } = priceAt(model, connector);
  const estimate = key.isHard && !model.free ? hardEstimate(size, price) : balancedEstimate(size, price);
  const { inputTokens, outputTokens } = estimate;
  return { inputTokens, outputTokens, costNanoUsd: heldCost(estimate.costNanoUsd) };
}

/** The key's counters are others by now: it has to be asked for anew, and the request tried again. */
function counterReplaced(): AppError {
  const message = 'The budget of this key was changed just now. Try again.';
  return new AppError('unavailable', COUNTER_REPLACED, message);
}

export const COUNTER_REPLACED = 'counter_replaced';

/** Where usage can't be written down, nothing is spent. */
export function usageBacklog(cause?: unknown): AppError {
  const message = 'Usage can not be recorded right now, so nothing is spent. Try again.';
  return new AppError('unavailable', 'usage_backlog', message, { cause });
}
