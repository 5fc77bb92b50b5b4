import type { Tx } from '@weighbridge/database';
import { microFromNano, type NanoUsd, nanoFromMicro, newUuid } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import {
  type ArchivedAttempt,
  correctedCost,
  findArchivedAttempt,
  recordCorrection,
} from '@weighbridge/ledger';
import { MAX_COST_NANO_USD } from '@weighbridge/usage';
import type { Caller } from '../../shared/caller.ts';
import { recordAudit } from '../audit/audit.service.ts';
import { runOnce } from '../idempotency/idempotency.service.ts';
import type { Correction, NewCorrection } from './corrections.schemas.ts';
import { existingRequest, type RequestDeps, requestNotFound } from './requests.service.ts';
import { presentCorrection } from './requests.ts';

/**
 * Adds a signed entry to the ledger, in the windows in which the request was admitted. A repetition with the same
 * `Idempotency-Key` gets the first result: a lost response must not make the amount count twice.
 */
export async function correctRequest(
  { db, archive, now }: RequestDeps,
  caller: Caller,
  requestId: string,
  input: NewCorrection,
  idempotencyKey: string | undefined,
): Promise<{ readonly result: Correction; readonly replayed: boolean }> {
  const at = now();
  const { attempts } = await existingRequest({ db, archive }, requestId);
  const attempt =
    input.event_id === undefined ? attempts[0] : attempts.find(({ event_id }) => event_id === input.event_id);
  if (!attempt) {
    throw new AppError('validation', 'event_not_found', 'This request has no attempt with this event_id.', {
      param: 'event_id',
    });
  }
  const archived = await findArchivedAttempt(db, archive, { requestId, eventId: attempt.event_id });
  const body = { request_id: requestId, ...input };
  return await runOnce(db, { caller, idempotencyKey, body, now: at }, async (tx) => {
    const amountNanoUsd = await exactAmount(tx, attempt.event_id, archived, input.amount_micro_usd);
    const row = await recordCorrection(tx, {
      correctionId: newUuid(),
      requestId,
      eventId: attempt.event_id,
      amountNanoUsd,
      reason: input.reason,
      archived,
      now: at,
    });
    if (!row) throw requestNotFound();
    // A concurrent correction may have been recorded meanwhile.
    assertPossibleCost(await correctedCost(tx, attempt.event_id, archived));
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

/** A correction by the whole cost in micro-USD, as the API shows it, takes off the exact cost. */
async function exactAmount(
  tx: Tx,
  eventId: string,
  archived: ArchivedAttempt | undefined,
  amountMicroUsd: number,
): Promise<NanoUsd> {
  const cost = await correctedCost(tx, eventId, archived);
  const amount = microFromNano(cost) === -amountMicroUsd ? -cost : nanoFromMicro(amountMicroUsd);
  assertPossibleCost(cost + amount);
  return amount;
}

/** Throws 422 if an attempt can't cost this much, including its corrections. */
function assertPossibleCost(cost: NanoUsd): void {
  // A negative cost would add headroom to a budget.
  if (cost < 0n) throw exceedsCost();
  // The bound of usage events: it keeps the sums in buckets from overflowing.
  if (cost > MAX_COST_NANO_USD) throw tooLarge();
}

function tooLarge(): AppError {
  const message =
    'With this correction the attempt would cost more than a million dollars, which is the maximum. Check that the amount is in micro-USD.';
  return new AppError('validation', 'correction_too_large', message, { param: 'amount_micro_usd' });
}

function exceedsCost(): AppError {
  const message =
    'This correction takes off more than the attempt cost, including its earlier corrections. Take off less; to refund more, raise the limit of the policy.';
  return new AppError('validation', 'correction_exceeds_cost', message, { param: 'amount_micro_usd' });
}
