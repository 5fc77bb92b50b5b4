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
import type { CountTokens } from '../answer/countTokens.ts';
import type { LeaseBook, Reservation } from '../budget/leaseBook.ts';
import type { ResolvedKey } from '../control/resolvedKey.ts';
import { priceAt } from '../control/routingTable.ts';
import type { Attempt, UsageLog } from '../usage/usageLog.ts';
import { usageBacklog } from './admit.ts';
import { atReserve, chargeFor } from './charge.ts';
import type { EndedTry } from './endedTry.ts';
import { expectedOutput } from './expectedOutput.ts';
import type { Outgoing, Work } from './outgoing.ts';
import { type AttemptEnd, type Attempted, eventHead, eventTail, heldCost } from './usageEvent.ts';

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
   * Room may take a while to come: `requireWaiting` throws where nobody waits for the answer by then.
   */
  begin(outgoing: Outgoing, requireWaiting: () => void): Promise<void>;
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
  readonly attempt: Attempt;
  readonly outgoing: Billed;
  readonly reserve: Estimate;
  /** Undefined where nothing limits what it may cost. */
  readonly held: Reservation | undefined;
  readonly begunAt: number;
}

/** `onEnd` is told of each attempt when it is known what it came to. */
export function openAttemptLog(
  deps: AttemptLogDeps,
  attempted: Attempted,
  onEnd: (work: Work, end: AttemptEnd) => void = () => {},
): AttemptLog {
  const { usage, budget, logger } = deps;
  const { key } = attempted;
  const [bucket] = key.policies;
  const shard = bucket ? usageShard(bucket.bucket) : 0;
  let begun = 0;
  const begunOf = new Map<string, number>();
  let usedTokens = 0;
  let open: Open | undefined;

  /** Resolves when it is in the spool, or can't be. */
  async function write(
    { attempt, held, outgoing: { connector, work } }: Open,
    end: AttemptEnd,
  ): Promise<void> {
    open = undefined;
    usedTokens += totalTokens(end.usage);
    // What it leaves of its reserve is free only once its end is written: else the next start charges the whole reserve.
    const isSpare = held && end.costNanoUsd < held.amountNanoUsd && !attempt.isRefused;
    if (held && !isSpare) {
      budget.settle(held, end.costNanoUsd);
      if (key.isHard && end.costNanoUsd > held.amountNanoUsd) {
        logger.error(
          { requestId: attempted.requestId, connectorId: connector.id },
          'an attempt under a hard budget cost more than it could: its vendor ignored a limit',
        );
        deps.onReserveExceeded(work.model.id);
      }
    }
    let isWritten = false;
    try {
      attempt.settle(eventTail(end, deps.now()));
      await usage.durable();
      isWritten = true;
    } catch (error) {
      // It stays open in the spool: the next start settles it at its reserve.
      logger.error({ err: error, requestId: attempted.requestId }, 'an attempt could not be settled');
    }
    if (held && isSpare) budget.settle(held, isWritten ? end.costNanoUsd : held.amountNanoUsd);
  }

  /** An exhausted budget never blocks what costs nothing. */
  async function hold({ model }: Work, amount: NanoUsd): Promise<Reservation | undefined> {
    if (model.free || key.budgets.length === 0) return undefined;
    return (
      budget.tryReserve(key.budgets, amount) ??
      (await budget.reserve(key.budgets, amount, key.isOperator)) ??
      raise(counterReplaced())
    );
  }

  async function charged({ outgoing, reserve }: Open, ended: EndedTry) {
    const { connector, work } = outgoing;
    try {
      const { usage, estimated, costNanoUsd } = await chargeFor(ended, outgoing, reserve, deps.countTokens);
      const cost = costNanoUsd ?? costOf(usage, priceAt(work.model, connector).price);
      return { usage, estimated, costNanoUsd: heldCost(cost) };
    } catch (error) {
      logger.error({ err: error, requestId: attempted.requestId }, 'what was used could not be counted');
      return atReserve(reserve);
    }
  }

  return {
    get usedTokens() {
      return usedTokens;
    },

    async begin({ work, ...sent }, requireWaiting) {
      if (!work) throw new Error('only what a model works at is written down');
      const outgoing = { ...sent, work };
      const { model } = work;
      const eventId = deps.newEventId();
      const modelAttempt = (begunOf.get(model.id) ?? 0) + 1;
      const head = eventHead(attempted, { eventId, target: work, attempt: begun + 1, modelAttempt });
      const reserve = reserveOf(deps, key, outgoing);
      const held = await hold(work, reserve.costNanoUsd);
      try {
        requireWaiting();
      } catch (error) {
        if (held) budget.settle(held, 0n);
        throw error;
      }
      try {
        const attempt = usage.begin({ eventId, shard, reserveNanoUsd: reserve.costNanoUsd, head });
        open = { attempt, outgoing, reserve, held, begunAt: performance.now() };
        // Only now: what was held back is no attempt, and a request is counted by its first one.
        begun++;
        begunOf.set(model.id, modelAttempt);
        await usage.durable();
      } catch (error) {
        if (open) await write(open, { ...NOT_SENT, dispatchedAt: open.begunAt });
        else if (held) budget.settle(held, 0n);
        // What costs nothing may go unrecorded.
        if (model.free) return;
        throw usageBacklog(error);
      }
    },

    async settle(ended) {
      const current = open;
      if (!current) return undefined;
      const charge = await charged(current, ended);
      if (open !== current) return undefined;
      const { outcome, status, dispatchedAt, firstByteAt, facts } = ended;
      const { responseId } = facts;
      const end = { ...charge, outcome, status, dispatchedAt, firstByteAt, responseId };
      onEnd(current.outgoing.work, end);
      await write(current, end);
      return charge.costNanoUsd;
    },

    close() {
      if (!open) return;
      logger.error(
        { requestId: attempted.requestId },
        'an attempt was left open; it is settled at its reserve',
      );
      const end = { ...NOT_SENT, ...atReserve(open.reserve), dispatchedAt: open.begunAt };
      onEnd(open.outgoing.work, end);
      void write(open, end);
    },
  };
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
  return { ...estimate, costNanoUsd: heldCost(estimate.costNanoUsd) };
}

/** The key's counters are others by now: it has to be asked for anew, and the request tried again. */
function counterReplaced(): AppError {
  const message = 'The budget of this key was changed just now. Try again.';
  return new AppError('unavailable', COUNTER_REPLACED, message);
}

export const COUNTER_REPLACED = 'counter_replaced';
