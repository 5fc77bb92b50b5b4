import type { Database, Tx } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import { addEvidence } from '@weighbridge/evidence';
import {
  discardQuarantined,
  listQuarantine as findQuarantine,
  findQuarantined,
  type QuarantinedRow,
  type QuarantineEntry,
  releaseQuarantined,
} from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordAudit } from '../audit/audit.service.ts';
import type {
  QuarantinedUsage,
  QuarantinedUsageWithPayload,
  QuarantineListQuery,
} from './quarantine.schemas.ts';

export interface QuarantineDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** Quarantined usage, oldest first, since operators deal with it in that order. */
export async function listQuarantine(
  { db }: QuarantineDeps,
  query: QuarantineListQuery,
): Promise<PageOf<QuarantinedUsage>> {
  const request = pageRequest('quarantine', query, positionOf(part.bigint));
  const [after] = request.after ?? [];
  const rows = await findQuarantine(db, {
    state: query.state,
    after: after === undefined ? undefined : BigInt(after),
    limit: request.size + 1,
  });
  return page('quarantine', request, rows, (row) => [String(row.id)], present);
}

export async function readQuarantined(
  { db }: QuarantineDeps,
  id: string,
): Promise<QuarantinedUsageWithPayload> {
  const row = await existingQuarantined(db, id);
  return { ...present(row), payload_base64: row.payload.toString('base64') };
}

/** Tries again to record it. Throws 422 if the ledger still refuses it; it then stays held. */
export async function release(deps: QuarantineDeps, caller: Caller, id: string): Promise<QuarantinedUsage> {
  return await resolve(deps, caller, id, 'quarantine.released', {}, async (tx, row, resolved) => {
    const outcome = await releaseQuarantined(tx, { id: row.id, ...resolved, lastStep: addEvidence });
    if (outcome === 'released') return;
    if (!outcome) throw alreadyResolved(row.state);
    throw new AppError(
      'validation',
      'still_refused',
      `The ledger still refuses this usage: ${outcome.stillRefused}. Update metering if a newer release can read it; otherwise discard it with a note. If it was spend, add the amount as a correction of another request of the same principal.`,
      { details: { reason: outcome.stillRefused } },
    );
  });
}

/** Marks it for good as usage that is not recorded; the note says why. */
export async function discard(
  deps: QuarantineDeps,
  caller: Caller,
  id: string,
  note: string,
): Promise<QuarantinedUsage> {
  return await resolve(deps, caller, id, 'quarantine.discarded', { note }, async (tx, row, resolved) => {
    if (!(await discardQuarantined(tx, { id: row.id, note, ...resolved }))) throw alreadyResolved(row.state);
  });
}

async function resolve(
  { db, now }: QuarantineDeps,
  caller: Caller,
  id: string,
  action: string,
  detail: Readonly<Record<string, unknown>>,
  act: (tx: Tx, row: QuarantinedRow, resolved: { readonly by: string; readonly now: Date }) => Promise<void>,
): Promise<QuarantinedUsage> {
  const at = now();
  return await db.transaction().execute(async (tx) => {
    const row = await existingQuarantined(tx, id);
    if (row.state !== 'held') throw alreadyResolved(row.state);
    await act(tx, row, { by: caller.principalId, now: at });
    const { kind, reason, principal_id } = row;
    await recordAudit(tx, {
      actor: caller,
      action,
      resourceId: id,
      detail: { kind, reason, principal_id, ...detail },
      at,
    });
    return present(await existingQuarantined(tx, id));
  });
}

function alreadyResolved(state: string): AppError {
  const became = state === 'held' ? 'resolved by another request' : state;
  return new AppError('conflict', 'quarantine_resolved', `This usage was already ${became}, which is final.`);
}

export async function existingQuarantined(db: Database, id: string): Promise<QuarantinedRow> {
  const row = part.bigint(id) ? await findQuarantined(db, BigInt(id)) : undefined;
  return (
    row ??
    raise(
      new AppError('not_found', 'quarantine_not_found', 'There is no quarantined usage with this id.', {
        param: 'quarantine_id',
      }),
    )
  );
}

function present(row: QuarantineEntry): QuarantinedUsage {
  return {
    id: String(row.id),
    kind: row.kind as QuarantinedUsage['kind'],
    state: row.state as QuarantinedUsage['state'],
    reason: row.reason,
    received_at: row.received_at.toISOString(),
    producer_id: row.producer_id,
    epoch: row.epoch,
    shard: row.shard,
    n: row.n === null ? null : Number(row.n),
    principal_id: row.principal_id,
    resolved_at: row.resolved_at?.toISOString() ?? null,
    resolved_by: row.resolved_by,
    note: row.note,
  };
}
