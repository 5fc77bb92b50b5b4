import { type CloseEpochRequest, USAGE_SHARDS } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import { closeEpoch, recordWatermarks, registerProducer, retireProducer } from '@weighbridge/ledger';
import type { Caller } from '../../shared/caller.ts';
import { hasInvalidCharacter } from '../../shared/invalidText.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordAudit } from '../audit/audit.service.ts';
import { currentRevision } from '../changes/changes.service.ts';
import { findProxies, findProxy, findSuperseded, type ProxyRow } from './proxies.repository.ts';
import { hasUsage, type PresentedProxy, presentProxy } from './proxies.ts';

export interface ProducerDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** One run of a proxy's process on its spool. */
export interface ProducerRun {
  readonly producerId: string;
  readonly epoch: string;
  readonly name: string;
}

/** All that a run had settled before `markAt` is in the ledger. */
export interface Mark {
  readonly producerId: string;
  readonly epoch: string;
  readonly markAt: Date;
  readonly seenAt: Date;
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const MAX_N = 2n ** 63n - 2n;

/** Puts a run on record, in the place of whoever wrote to its spool before. Refused where it was itself replaced. */
export async function register({ db, now }: ProducerDeps, run: ProducerRun): Promise<void> {
  requireUuids(run);
  if ((await registerProducer(db, { ...run, now: now() })) === 'superseded') throw superseded(run.epoch);
}

/** Puts on record how far each run's usage is in the ledger; resolves with the epochs that were taken over meanwhile. */
export async function keepMarks(db: Database, marks: readonly Mark[]): Promise<readonly string[]> {
  if (marks.length === 0) return [];
  await recordWatermarks(db, marks);
  return await findSuperseded(
    db,
    marks.map(({ epoch }) => epoch),
  );
}

export function superseded(epoch: string): AppError {
  return new AppError(
    'conflict',
    'epoch_superseded',
    `Another process took over the spool of ${epoch}, or a copy of it was replayed: this one gets nothing any more. Give each proxy a spool folder of its own, replay none that is in use, and start this one again.`,
  );
}

/** Whether the ledger has all that a run wrote, which writes no more. */
export async function endEpoch({ db, now }: ProducerDeps, ended: CloseEpochRequest): Promise<boolean> {
  const { producerId, epoch, lastN } = ended;
  requireUuids({ producerId, epoch });
  if (lastN.length !== USAGE_SHARDS || lastN.some((n) => n > MAX_N)) {
    throw new AppError(
      'invalid_request',
      'invalid_request',
      `last_n: must be the number of the last event of each of the ${USAGE_SHARDS} shards.`,
      { param: 'last_n' },
    );
  }
  return await closeEpoch(db, { producerId, epoch, lastN, now: now() });
}

/** The proxies that may serve now, or whose usage may not all be in the ledger; with `all`, every one on record. */
export async function listProxies(
  { db, now }: ProducerDeps,
  query: { readonly page_size?: string; readonly page_token?: string; readonly all?: 'true' | 'false' },
): Promise<PageOf<PresentedProxy>> {
  const request = pageRequest('proxies', query, positionOf(part.text));
  const revision = await currentRevision(db);
  const [after] = request.after ?? [];
  const rows = await findProxies(db, { after, limit: request.size + 1, all: query.all === 'true' });
  return page(
    'proxies',
    request,
    rows,
    (row) => [row.id],
    (row) => presentProxy(row, revision, now()),
  );
}

/** Accepts that what a lost proxy has not handed over never comes: spend is then reported as complete without it. */
export async function retireProxy(
  { db, now }: ProducerDeps,
  caller: Caller,
  id: string,
): Promise<PresentedProxy> {
  const at = now();
  return await db.transaction().execute(async (tx) => {
    const row = (hasInvalidCharacter(id) ? undefined : await findProxy(tx, id)) ?? raise(proxyNotFound());
    const isRetired = await retireLost(tx, row, caller, at);
    if (!isRetired) throw notLost((await findProxy(tx, id)) ?? row);
    await recordAudit(tx, {
      actor: caller,
      action: 'proxy.retired',
      resourceId: id,
      detail: {
        producer_id: row.producer_id,
        name: row.name,
        last_seen_at: row.last_seen_at.toISOString(),
        shards: row.shards ?? [],
      },
      at,
    });
    const revision = await currentRevision(tx);
    return presentProxy((await findProxy(tx, id)) ?? row, revision, at);
  });
}

async function retireLost(tx: Database, row: ProxyRow, caller: Caller, now: Date): Promise<boolean> {
  if (!hasUsage(row) || row.state !== 'lost') return false;
  return (await retireProducer(tx, { epoch: row.id, retiredBy: caller.principalId, now })) !== undefined;
}

function notLost(row: ProxyRow): AppError {
  const state = row.state ?? null;
  const message = {
    open: `Its usage is still awaited: it was last heard of at ${row.last_seen_at.toISOString()}, and counts as lost after 25 minutes of silence. Start it again, or replay its spool; retire it once it is lost.`,
    closed: 'All its usage is in the ledger: there is no loss to accept.',
    retired: 'Its loss was accepted before.',
    lost: 'It was being changed just now. Try again.',
    none: 'It never said to which spool it writes, so nothing of it is awaited.',
  }[state ?? 'none'];
  return new AppError('conflict', 'proxy_not_lost', message, { details: { state } });
}

function proxyNotFound(): AppError {
  return new AppError('not_found', 'proxy_not_found', 'There is no proxy with this id.', {
    param: 'proxy_id',
  });
}

function requireUuids(named: { readonly producerId: string; readonly epoch: string }): void {
  if (UUID.test(named.producerId) && UUID.test(named.epoch)) return;
  throw new AppError(
    'invalid_request',
    'invalid_request',
    'A spool and each run of its process are named by UUIDs.',
  );
}
