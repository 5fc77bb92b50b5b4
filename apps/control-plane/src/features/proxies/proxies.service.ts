import type { MessageInitShape } from '@bufbuild/protobuf';
import type { ResolveResponseSchema, SnapshotSchema } from '@weighbridge/contracts';
import { type Database, listen } from '@weighbridge/database';
import { readModelOutputs } from '@weighbridge/ledger';
import type { Logger, Metrics } from '@weighbridge/runtime';
import {
  CHANGES_CHANNEL,
  changesAfter,
  compactChanges,
  currentPosition,
  currentRevision,
} from '../changes/changes.service.ts';
import { negotiatedPrices } from '../connectors/connectorPrices.service.ts';
import { usableConnectors } from '../connectors/connectors.service.ts';
import { evidenceFeed } from '../evidence/evidence.service.ts';
import { findKeyByTokenSha256 } from '../keys/keySecrets.service.ts';
import { forgetOldRates } from '../leases/leases.service.ts';
import { RECALLS_CHANNEL, recalledBucket } from '../leases/recalls.ts';
import { type ModelDeps, servedModels } from '../models/models.service.ts';
import { type Counter, countersOf } from '../policies/policies.service.ts';
import { routingProfiles } from '../profiles/profiles.service.ts';
import { createChangeFeed, MAX_CHANGES } from './changeFeed.ts';
import { connectorMessage, keyMessage, modelMessage, profileMessage } from './messages.ts';
import { keepMarks, register } from './producers.service.ts';
import { countLive, forgetOldProxies, recordGone, recordSeen } from './proxies.repository.ts';
import { startWatchers, type Watchers } from './watch.ts';

/** After so long a proxy asks for a key's counters again, in case that a window began which its clock does not know of. */
const MAX_KEY_AGE_MS = 60_000;
const LAG_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const TIDY_MS = 10 * 60_000;

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
  const lag = deps.metrics
    .histogramFamily(
      'weighbridge_propagation_seconds',
      'From when a change was sent to a proxy until it said that it had applied it.',
      [],
      LAG_BUCKETS,
    )
    .of();
  const watchers = startWatchers({
    logger,
    now,
    feed,
    recordSeen: (proxies) => recordSeen(db, proxies),
    recordGone: (proxyId) => recordGone(db, proxyId),
    register: (run) => register(deps, run),
    keepMarks: (marks) => keepMarks(db, marks),
    countLive: () => countLive(db),
    readModelOutputs: () => readModelOutputs(db),
    evidence: evidenceFeed(deps),
    onApplied: (seconds) => lag.observe(seconds),
  });
  deps.metrics.gauge('weighbridge_watchers', 'Proxies that watch this control plane.', () => watchers.count);
  const tidying = setInterval(() => {
    tidy(db, now()).catch((error) =>
      logger.warn({ err: error }, 'old changes and proxies were not forgotten'),
    );
  }, TIDY_MS);
  const listener = listen(
    databaseUrl,
    {
      [CHANGES_CHANNEL]: () => watchers.wake(),
      [RECALLS_CHANNEL]: (text) => {
        if (text !== undefined) watchers.recall(recalledBucket(text));
      },
    },
    {
      onError: (error) => logger.warn({ err: error }, 'not listening for changes; they are seen by polling'),
    },
  );
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
async function tidy(db: Database, now: Date): Promise<void> {
  await compactChanges(db, MAX_CHANGES);
  await forgetOldProxies(db);
  await forgetOldRates(db, now);
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
        profiles: (await routingProfiles(tx)).map(profileMessage),
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
  const now = deps.now();
  const { counters } = await countersOf(deps.db, row, now);
  const ends = [row.expires_at, row.secret_expires_at].filter((at) => at !== null).map((at) => at.getTime());
  // A proxy checks it at every request, so a replaced secret ends on time wherever it is known.
  const expiresAt = ends.length > 0 ? new Date(Math.min(...ends)) : null;
  const key = keyMessage({ ...row, expires_at: expiresAt }, counters, now);
  return { key, revision, maxAgeMs: maxAgeMs(counters, now) };
}

/** As long as all windows last, and at most so long. */
function maxAgeMs(counters: readonly Counter[], now: Date): number {
  const remaining = counters.flatMap(({ window }) =>
    window.end ? window.end.getTime() - now.getTime() : [],
  );
  return Math.max(1, Math.min(MAX_KEY_AGE_MS, ...remaining));
}
