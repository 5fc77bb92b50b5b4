import type { Database } from '@weighbridge/database';
import { AppError, raise } from '@weighbridge/errors';
import { retireProducer } from '@weighbridge/ledger';
import type { Static } from 'typebox';
import type { Caller } from '../../shared/caller.ts';
import { hasInvalidCharacter } from '../../shared/invalidText.ts';
import { type PageOf, page, pageRequest, part, positionOf } from '../../shared/paging.ts';
import { recordAudit } from '../audit/audit.service.ts';
import { currentRevision } from '../changes/changes.service.ts';
import { findProxies, findProxy, type ProxyRow } from './proxies.repository.ts';
import type { ProxyListQuery, ProxyResource } from './proxies.schemas.ts';
import { hasUsage, presentProxy } from './proxies.ts';

/** What proxies report of themselves. */
export { findReportedConnectors, sumProxies } from './proxies.repository.ts';

export interface ProxyAdminDeps {
  readonly db: Database;
  readonly now: () => Date;
}

/** The proxies that may serve now, or whose usage may not all be in the ledger; with `all`, every recorded one. */
export async function listProxies(
  { db, now }: ProxyAdminDeps,
  query: Static<typeof ProxyListQuery>,
): Promise<PageOf<ProxyResource>> {
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

export async function existingProxy(db: Database, id: string): Promise<ProxyRow> {
  return (hasInvalidCharacter(id) ? undefined : await findProxy(db, id)) ?? raise(proxyNotFound());
}

/** Accepts the loss of a lost proxy's missing usage: spend is then reported as complete without it. */
export async function retireProxy(
  { db, now }: ProxyAdminDeps,
  caller: Caller,
  id: string,
): Promise<ProxyResource> {
  const at = now();
  return await db.transaction().execute(async (tx) => {
    const row = await existingProxy(tx, id);
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
    open: `This proxy is not lost yet: it was last seen at ${row.last_seen_at.toISOString()}, and counts as lost after 25 minutes of silence. Start it again or replay its spool; retire it once it is lost.`,
    closed: 'All usage of this proxy is in the ledger: there is no loss to accept.',
    retired: 'This proxy is already retired.',
    lost: 'The state of this proxy changed during the request. Try again.',
    none: 'This proxy never reported a spool, so no usage of it is missing.',
  }[state ?? 'none'];
  return new AppError('conflict', 'proxy_not_lost', message, { details: { state } });
}

function proxyNotFound(): AppError {
  return new AppError('not_found', 'proxy_not_found', 'There is no proxy with this id.', {
    param: 'proxy_id',
  });
}
