import { MAX_COST_NANO_USD } from '@weighbridge/contracts';
import type { Tx } from '@weighbridge/database';
import { microFromNano, type NanoUsd, nanoFromMicro, newUuid } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { correctedCost, recordCorrection } from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { recordAudit } from '../audit/audit.service.ts';
import { answerOnce } from '../idempotency/idempotency.service.ts';
import { existingRequest, type RequestDeps, requestNotFound } from './requests.service.ts';
import { type PresentedCorrection, presentCorrection } from './requests.ts';

export interface NewCorrection {
  /** Signed: what is added to the spend. */
  readonly amount_micro_usd: number;
  readonly reason: string;
  /** The attempt that is corrected; where it is left out, the request's first. */
  readonly event_id?: string;
}

/**
 * Adds a signed entry to the ledger, in the window that the request was admitted in. A repetition under the same
 * `Idempotency-Key` gets the first answer again: money must not move twice because an answer was lost.
 */
export async function correctRequest(
  { db, now }: RequestDeps,
  caller: Caller,
  requestId: string,
  input: NewCorrection,
  idempotencyKey: string | undefined,
): Promise<{ readonly answer: PresentedCorrection; readonly replayed: boolean }> {
  const at = now();
  const { attempts } = await existingRequest(db, requestId);
  // Of another request, or of none: nothing of it is told.
  const attempt = input.event_id === undefined ? attempts[0] : attempts.find(isIt(input.event_id));
  if (!attempt) {
    throw new AppError('validation', 'event_not_found', 'This request has no attempt with this event_id.', {
      param: 'event_id',
    });
  }
  const body = { request_id: requestId, ...input };
  return await answerOnce(db, { caller, idempotencyKey, body, now: at }, async (tx) => {
    const amountNanoUsd = await amountOf(tx, attempt.event_id, input.amount_micro_usd);
    const row = await recordCorrection(tx, {
      correctionId: newUuid(),
      requestId,
      eventId: attempt.event_id,
      amountNanoUsd,
      reason: input.reason,
      now: at,
    });
    if (!row) throw requestNotFound();
    // Another one may have come in between.
    requirePossible(await correctedCost(tx, attempt.event_id));
    const correction = presentCorrection(row);
    const { event_id, corrects, amount_micro_usd, reason } = correction;
    await recordAudit(tx, {
      actor: caller,
      action: 'request.corrected',
      resourceId: requestId,
      detail: { event_id, corrects, principal_id: row.principal_id, amount_micro_usd, reason },
      at,
    });
    return correction;
  });
}

/** What takes off as much as the API shows of the cost takes off all of it: what is finer, nobody could name. */
async function amountOf(tx: Tx, eventId: string, amountMicroUsd: number): Promise<NanoUsd> {
  const cost = await correctedCost(tx, eventId);
  const amount = microFromNano(cost) === -amountMicroUsd ? -cost : nanoFromMicro(amountMicroUsd);
  requirePossible(cost + amount);
  return amount;
}

/** What an attempt may cost with all its corrections. */
function requirePossible(cost: NanoUsd): void {
  // Less than nothing would be room in a budget that nobody gave.
  if (cost < 0n) throw exceedsCost();
  // As of events: a few of what is far beyond any vendor's price, and no counter can hold their sum.
  if (cost > MAX_COST_NANO_USD) throw tooLarge();
}

function isIt(eventId: string): (attempt: { readonly event_id: string }) => boolean {
  return ({ event_id }) => event_id === eventId;
}

function tooLarge(): AppError {
  const message =
    'With this, the attempt would cost more than a million dollars, which is the most that one may. Look whether the amount is in micro-USD.';
  return new AppError('validation', 'correction_too_large', message, { param: 'amount_micro_usd' });
}

function exceedsCost(): AppError {
  const message =
    'This takes off more than the attempt cost, with the corrections that it has already. Take off less; a refund that goes further belongs in the limit of the policy.';
  return new AppError('validation', 'correction_exceeds_cost', message, { param: 'amount_micro_usd' });
}
