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

export interface QuarantineDeps {
  readonly db: Database;
  readonly now: () => Date;
}

export const QUARANTINE_STATES = ['held', 'released', 'discarded'] as const;
type QuarantineState = (typeof QUARANTINE_STATES)[number];

/** Usage that the ledger did not take, as lists of the API show it. */
export interface PresentedQuarantined {
  readonly id: string;
  readonly kind: 'event' | 'batch';
  readonly state: QuarantineState;
  readonly reason: string;
  readonly received_at: string;
  readonly producer_id: string | null;
  readonly epoch: string | null;
  readonly shard: number | null;
  readonly n: number | null;
  readonly principal_id: string | null;
  readonly resolved_at: string | null;
  readonly resolved_by: string | null;
  readonly note: string | null;
}

export interface QuarantineListQuery {
  readonly page_size?: string;
  readonly page_token?: string;
  readonly state?: QuarantineState;
}

/** The oldest first: that is the order in which they are dealt with. */
export async function listQuarantine(
  { db }: QuarantineDeps,
  query: QuarantineListQuery,
): Promise<PageOf<PresentedQuarantined>> {
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
): Promise<PresentedQuarantined & { readonly payload_base64: string }> {
  const row = await existingQuarantined(db, id);
  return { ...present(row), payload_base64: row.payload.toString('base64') };
}

/** Tries once more to record it. 422 where it is refused as before: then it stays as it is. */
export async function release(
  deps: QuarantineDeps,
  caller: Caller,
  id: string,
): Promise<PresentedQuarantined> {
  return await resolve(deps, caller, id, 'quarantine.released', {}, async (tx, row, resolved) => {
    const outcome = await releaseQuarantined(tx, { id: row.id, ...resolved, lastStep: addEvidence });
    if (outcome === 'released') return;
    if (!outcome) throw resolvedBefore(row.state);
    throw new AppError(
      'validation',
      'still_refused',
      `The ledger still can't take it: ${outcome.stillRefused}. Update metering if a newer release reads it; else discard it with a note. If it was spend, add it by a correction of another request of whose it was.`,
      { details: { reason: outcome.stillRefused } },
    );
  });
}

/** Says for good that it is no spend, or none that can be known; why, stays on record. */
export async function discard(
  deps: QuarantineDeps,
  caller: Caller,
  id: string,
  note: string,
): Promise<PresentedQuarantined> {
  return await resolve(deps, caller, id, 'quarantine.discarded', { note }, async (tx, row, resolved) => {
    if (!(await discardQuarantined(tx, { id: row.id, note, ...resolved }))) throw resolvedBefore(row.state);
  });
}

async function resolve(
  { db, now }: QuarantineDeps,
  caller: Caller,
  id: string,
  action: string,
  detail: Readonly<Record<string, unknown>>,
  act: (tx: Tx, row: QuarantinedRow, resolved: { readonly by: string; readonly now: Date }) => Promise<void>,
): Promise<PresentedQuarantined> {
  const at = now();
  return await db.transaction().execute(async (tx) => {
    const row = await existingQuarantined(tx, id);
    if (row.state !== 'held') throw resolvedBefore(row.state);
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

function resolvedBefore(state: string): AppError {
  const became = state === 'held' ? 'resolved just now' : `${state} before`;
  return new AppError('conflict', 'quarantine_resolved', `This was ${became}, and that is for good.`);
}

export async function existingQuarantined(db: Database, id: string): Promise<QuarantinedRow> {
  const row = part.bigint(id) ? await findQuarantined(db, BigInt(id)) : undefined;
  return (
    row ??
    raise(
      new AppError('not_found', 'quarantine_not_found', 'Nothing was quarantined under this id.', {
        param: 'quarantine_id',
      }),
    )
  );
}

function present(row: QuarantineEntry): PresentedQuarantined {
  return {
    id: String(row.id),
    kind: row.kind as PresentedQuarantined['kind'],
    state: row.state as QuarantineState,
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
