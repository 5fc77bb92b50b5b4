import type { KeyUse } from '@weighbridge/contracts';
import { type Database, listen } from '@weighbridge/database';
import { isId } from '@weighbridge/domain';
import { readModelOutputs } from '@weighbridge/ledger';
import type { Logger, Metrics } from '@weighbridge/runtime';
import { connectorMessage, policyMessage } from '@weighbridge/state';
import { CHANGES_CHANNEL, currentPosition, pruneChanges } from '../changes/changes.service.ts';
import { credentialOf, existingConnector, mayBePrivate } from '../connectors/connectors.service.ts';
import {
  type ProxyTests,
  TESTED_CHANNEL,
  TESTS_CHANNEL,
  type TestRequest,
} from '../connectors/proxyTests.ts';
import { evidenceFeed } from '../evidence/evidence.service.ts';
import type { KeyUses } from '../keys/keyUses.service.ts';
import { pruneOldRates } from '../leases/leases.service.ts';
import { RECLAIMS_CHANNEL, reclaimedBucket } from '../leases/reclaims.ts';
import type { ModelDeps } from '../models/models.service.ts';
import { findPoliciesById } from '../policies/policies.service.ts';
import { ChangeFeed, MAX_CHANGES } from './changeFeed.ts';
import { assertOwnCall } from './ownCalls.ts';
import { recordRunWatermarks, registerRun, unsignedCalls } from './producers.service.ts';
import { countLiveProxies, pruneProxies, recordGoodbye, recordSeen } from './proxies.repository.ts';
import { OVERHEADS_CHANNEL, type ProxyOverheads } from './proxyOverheads.ts';
import { connectorForProxies, readChanges, readTables } from './tables.service.ts';
import type { WatchCall } from './watchedProxy.ts';
import { Watchers } from './watchers.ts';

const LAG_BUCKETS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10];
const PRUNE_MS = 10 * 60_000;

type WatcherServiceDeps = ModelDeps & {
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly keyUses: Pick<KeyUses, 'note'>;
  readonly proxyTests: Pick<ProxyTests, 'heard' | 'tell'>;
  readonly proxyOverheads: Pick<ProxyOverheads, 'heard' | 'tell'>;
};

/** Serves the streams of proxies. */
export interface WatchService {
  /** Serves a proxy's stream until either side ends it. */
  serve(call: WatchCall): void;
  close(): Promise<void>;
}

/** Follows the changes that any control plane commits, and sends them to the proxies that are connected to this one. */
export function startWatchers(
  deps: WatcherServiceDeps,
  databaseUrl: string,
  grpc: { readonly acceptsUnsigned: boolean },
): WatchService {
  const { db, logger, metrics, now } = deps;
  const watchers = createWatchers(deps, grpc);
  metrics.gauge(
    'weighbridge_watchers',
    'Proxies that are connected to this control plane.',
    () => watchers.count,
  );
  const listener = listen(
    databaseUrl,
    {
      [CHANGES_CHANNEL]: () => watchers.wake(),
      [RECLAIMS_CHANNEL]: (text) => {
        if (text !== undefined) watchers.reclaim(reclaimedBucket(text));
      },
      [TESTS_CHANNEL]: (text) => {
        if (text === undefined) return;
        testHere(deps, watchers, JSON.parse(text) as TestRequest).catch((error) =>
          logger.warn({ err: error }, 'failed to have proxies test a connector'),
        );
      },
      [TESTED_CHANNEL]: (text) => {
        if (text !== undefined) deps.proxyTests.heard(text);
      },
      [OVERHEADS_CHANNEL]: (text) => {
        if (text !== undefined) deps.proxyOverheads.heard(text);
      },
    },
    {
      onError: (error) => logger.warn({ err: error }, 'failed to listen for changes; polling for them'),
    },
  );
  const pruning = setInterval(() => {
    prune(db, now()).catch((error) =>
      logger.warn({ err: error }, 'failed to delete old changes, proxies and rate counters'),
    );
  }, PRUNE_MS);
  return {
    serve: (call) => watchers.serve(call),
    close: async () => {
      clearInterval(pruning);
      await listener.close();
      await watchers.close();
    },
  };
}

function createWatchers(
  deps: WatcherServiceDeps,
  { acceptsUnsigned }: { readonly acceptsUnsigned: boolean },
): Watchers {
  const { db, logger, metrics, now } = deps;
  const lag = metrics
    .histogramFamily(
      'weighbridge_propagation_seconds',
      'Time from sending a change to a proxy until the proxy reported that it applied the change.',
      [],
      LAG_BUCKETS,
    )
    .of();
  const feed = new ChangeFeed({
    logger,
    readPosition: () => currentPosition(db),
    readChanges: (after, limit) => readChanges(deps, after, limit),
    readPolicies: async (ids) => (await findPoliciesById(db, ids)).map(policyMessage),
    readTables: () => readTables(deps),
  });
  metrics.gauge(
    'weighbridge_table_bytes',
    'Size of the models, connectors, profiles and aliases that every proxy gets.',
    () => feed.tableBytes,
  );
  return new Watchers({
    logger,
    now,
    feed,
    evidence: evidenceFeed(deps),
    assertOwn: (call) => assertOwnCall(call, unsignedCalls(db, acceptsUnsigned)),
    recordSeen: (proxies) => recordSeen(db, proxies),
    recordGoodbye: (proxyId) => recordGoodbye(db, proxyId),
    registerRun: (run) => registerRun(deps, run),
    recordWatermarks: (watermarks) => recordRunWatermarks(db, watermarks),
    onKeyUses: (uses) => noteKeyUses(deps, uses),
    onConnectorTested: (proxy, tested) => {
      deps.proxyTests
        .tell(proxy, tested)
        .catch((error) => logger.warn({ err: error }, 'failed to pass on the test of a connector'));
    },
    tellOverheads: (overheads) => deps.proxyOverheads.tell(db, overheads),
    countLive: () => countLiveProxies(db),
    readModelOutputs: () => readModelOutputs(db),
    onApplied: (seconds) => lag.observe(seconds),
  });
}

/** Asks the proxies among the wanted ones that are connected to this control plane. */
async function testHere(
  deps: WatcherServiceDeps,
  watchers: Watchers,
  { testId, connectorId, proxies, timeoutMs }: TestRequest,
): Promise<void> {
  if (!watchers.hasAny(proxies)) return;
  const row = await existingConnector(deps.db, connectorId);
  const access = await credentialOf(deps, row);
  if ('unusable' in access) return;
  const { value: credential, identity } = access;
  const usable = { ...row, credential, identity, allowPrivateAddress: mayBePrivate(deps, row) };
  watchers.test(proxies, { testId, connector: connectorMessage(connectorForProxies(usable, [])), timeoutMs });
}

/** Of one status; a proxy sends fewer. */
const MAX_KEY_USES = 10_000;

/** Times by this control plane's clock, whatever a proxy's says. */
function noteKeyUses({ keyUses, now }: WatcherServiceDeps, uses: readonly KeyUse[]): void {
  const nowMs = now().getTime();
  for (const { keyId, ageMs } of uses.slice(0, MAX_KEY_USES)) {
    if (isId('key', keyId)) keyUses.note(keyId, Math.max(0, nowMs - Number(ageMs)));
  }
}

/** A proxy that was away so long that its changes are deleted gets a snapshot. */
async function prune(db: Database, now: Date): Promise<void> {
  await pruneChanges(db, MAX_CHANGES);
  await pruneProxies(db);
  await pruneOldRates(db, now);
}
