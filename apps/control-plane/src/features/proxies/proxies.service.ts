import { setTimeout as sleep } from 'node:timers/promises';
import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ResolveResponseSchema, SnapshotSchema } from '@weighbridge/contracts';
import { type Database, listen } from '@weighbridge/database';
import { bucketKey, readSpent } from '@weighbridge/ledger';
import type { Logger, Metrics } from '@weighbridge/runtime';
import { type PageOf, page, pageRequest } from '../../http/paging.ts';
import {
  CHANGES_CHANNEL,
  changesAfter,
  compactChanges,
  currentPosition,
  currentRevision,
} from '../changes/changes.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import { usableConnectors } from '../connectors/connectors.service.ts';
import { findKeyByTokenSha256 } from '../keys/keys.service.ts';
import { type ModelDeps, servedModels } from '../models/models.service.ts';
import { countersOf } from '../policies/policies.service.ts';
import { createChangeFeed, MAX_CHANGES } from './changeFeed.ts';
import { connectorMessage, keyMessage, modelMessage } from './messages.ts';
import {
  countLive,
  findBehind,
  findProxies,
  forgetOldProxies,
  type ProxyRow,
  recordGone,
  recordSeen,
} from './proxies.repository.ts';
import { startWatchers, type Watchers } from './watch.ts';

/** After so long a proxy asks for a key's counters again. The key itself it keeps until it is told otherwise. */
const COUNTERS_MAX_AGE_MS = 1_000;
const LAG_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const TIDY_MS = 10 * 60_000;
const PROPAGATION_POLL_MS = 20;

/** Follows what is committed, by any control plane, and tells the proxies that watch this one. */
export function followChanges(
  deps: ModelDeps & { readonly logger: Logger; readonly metrics: Metrics },
  databaseUrl: string,
): Watchers {
  const { db, now, logger } = deps;
  const feed = createChangeFeed({
    logger,
    readPosition: () => currentPosition(db),
    readChanges: (after, limit) => changesAfter(db, after, limit),
    readSnapshot: () => readSnapshot(deps),
  });
  const lag = deps.metrics.histogram(
    'weighbridge_propagation_seconds',
    'From when a change was sent to a proxy until it said that it had applied it.',
    LAG_BUCKETS,
  );
  const watchers = startWatchers({
    logger,
    now,
    feed,
    recordSeen: (proxies) => recordSeen(db, proxies),
    recordGone: (proxyId) => recordGone(db, proxyId),
    countLive: () => countLive(db),
    onApplied: (seconds) => lag.observe(seconds),
  });
  deps.metrics.gauge('weighbridge_watchers', 'Proxies that watch this control plane.', () => watchers.count);
  const tidying = setInterval(() => {
    tidy(db).catch((error) => logger.warn({ err: error }, 'old changes and proxies were not forgotten'));
  }, TIDY_MS);
  const listener = listen(databaseUrl, CHANGES_CHANNEL, {
    wake: watchers.wake,
    onError: (error) => logger.warn({ err: error }, 'not listening for changes; they are seen by polling'),
  });
  return {
    ...watchers,
    get count() {
      return watchers.count;
    },
    close: async () => {
      clearInterval(tidying);
      await listener.close();
      await watchers.close();
    },
  };
}

/** What nobody follows from any more goes: a proxy that was away for longer starts anew. */
async function tidy(db: Database): Promise<void> {
  await compactChanges(db, MAX_CHANGES);
  await forgetOldProxies(db);
}

/** Everything that a proxy needs besides keys, at one revision. */
export async function readSnapshot(deps: ModelDeps): Promise<MessageInitShape<typeof SnapshotSchema>> {
  return await deps.db
    .transaction()
    .setIsolationLevel('repeatable read')
    .execute(async (tx) => {
      const snapshot = { ...deps, db: tx };
      const revision = await currentRevision(tx);
      const connectors = await usableConnectors(snapshot);
      const prices = await negotiatedPrices(
        tx,
        connectors.map(({ id }) => id),
      );
      return {
        revision,
        connectors: connectors.map((row) => connectorMessage(row, prices.get(row.id) ?? [])),
        models: (await servedModels(tx, connectors)).map(modelMessage),
      };
    });
}

export async function resolveKey(
  deps: ModelDeps,
  tokenSha256: Uint8Array,
): Promise<MessageInitShape<typeof ResolveResponseSchema>> {
  // First: what is committed after it may be in the answer, and the stream will say it again. Never the reverse.
  const revision = await currentRevision(deps.db);
  const row = await findKeyByTokenSha256(deps, tokenSha256);
  if (!row) return { revision, maxAgeMs: 0 };
  const { counters } = await countersOf(deps.db, row, deps.now());
  const spent = await readSpent(
    deps.db,
    counters.map((counter) => counter.bucket),
  );
  const ends = [row.expires_at, row.secret_expires_at].filter((at) => at !== null).map((at) => at.getTime());
  // A proxy checks it at every request, so a replaced secret ends on time wherever it is known.
  const expiresAt = ends.length > 0 ? new Date(Math.min(...ends)) : null;
  const key = keyMessage(
    { ...row, expires_at: expiresAt },
    counters,
    (counter) => spent.get(bucketKey(counter.bucket)) ?? 0n,
  );
  return { key, revision, maxAgeMs: COUNTERS_MAX_AGE_MS };
}

/** Where a change stands that was just made. */
export interface Propagation {
  readonly revision: number;
  /** Whether no proxy serves anymore what was before. */
  readonly complete: boolean;
  /** The proxies that may still serve it. */
  readonly pending_proxies: string[];
}

/** Waits until every proxy has applied what is committed now, or may serve no more; at most so long. */
export async function propagation(db: Database, timeoutMs: number): Promise<Propagation> {
  const revision = await currentRevision(db);
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const pending = await findBehind(db, revision);
    if (pending.length === 0 || Date.now() >= deadline) {
      return { revision: Number(revision), complete: pending.length === 0, pending_proxies: pending };
    }
    await sleep(PROPAGATION_POLL_MS);
  }
}

/** A proxy as the API shows it. */
export interface PresentedProxy {
  readonly id: string;
  readonly name: string;
  readonly version: string;
  readonly applied_revision: number;
  /** How many revisions it is behind. */
  readonly lag: number;
  readonly in_flight_requests: number;
  readonly waiting_usage_bytes: number;
  readonly connected_at: string;
  readonly last_seen_at: string;
  readonly may_serve_until: string;
}

export async function listProxies(
  { db }: { readonly db: Database },
  query: { readonly page_size?: string; readonly page_token?: string; readonly all?: 'true' | 'false' },
): Promise<PageOf<PresentedProxy>> {
  const request = pageRequest('proxies', query);
  const revision = await currentRevision(db);
  const [after] = request.after ?? [];
  const rows = await findProxies(db, { after, limit: request.size + 1, all: query.all === 'true' });
  return page(
    'proxies',
    request,
    rows,
    (row) => [row.id],
    (row) => present(row, revision),
  );
}

function present(row: ProxyRow, revision: bigint): PresentedProxy {
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    applied_revision: Number(row.applied_revision),
    lag: Math.max(0, Number(revision - row.applied_revision)),
    in_flight_requests: row.in_flight_requests,
    waiting_usage_bytes: Number(row.waiting_usage_bytes),
    connected_at: row.connected_at.toISOString(),
    last_seen_at: row.last_seen_at.toISOString(),
    may_serve_until: row.may_serve_until.toISOString(),
  };
}
