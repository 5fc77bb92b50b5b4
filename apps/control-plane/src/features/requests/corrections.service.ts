import { nanoFromMicro, newUuid } from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { correctedCost, recordCorrection } from '@weighbridge/ledger';
import type { Caller } from '../access/caller.ts';
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
  const { event_id: corrected } = input;
  if (corrected !== undefined && !attempts.some((row) => row.event_id === corrected)) {
    throw new AppError('validation', 'event_not_found', 'This request has no attempt with this event_id.', {
      param: 'event_id',
    });
  }
  const body = { request_id: requestId, ...input };
  return await answerOnce(db, { caller, idempotencyKey, body, now: at }, async (tx) => {
    const row = await recordCorrection(tx, {
      correctionId: newUuid(),
      requestId,
      eventId: corrected,
      amountNanoUsd: nanoFromMicro(input.amount_micro_usd),
      reason: input.reason,
      now: at,
    });
    if (!row) throw requestNotFound();
    // Less than nothing would be room in a budget that nobody gave.
    if ((await correctedCost(tx, row.corrects ?? row.event_id)) < 0n) throw exceedsCost();
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

function exceedsCost(): AppError {
  const message =
    'This takes off more than the attempt cost, with the corrections that it has already. Take off less; a refund that goes further belongs in the limit of the policy.';
  return new AppError('validation', 'correction_exceeds_cost', message, { param: 'amount_micro_usd' });
}
