import type { Tx } from '@weighbridge/database';
import {
  type ConnectorColumns,
  type RouteName,
  type SizedRow,
  scopeOf,
  type TableScope,
  tableRows,
} from '@weighbridge/state';
import { routedAliases } from '../aliases/aliases.service.ts';
import { benchmarkScores } from '../catalog/benchmarkScores.ts';
import type { PricedModel } from '../catalog/catalog.service.ts';
import { changesAfter, currentRevision } from '../changes/changes.service.ts';
import type { NegotiatedPrice } from '../connectors/connectorPrices.service.ts';
import { type UsableConnector, usableConnectors } from '../connectors/connectors.service.ts';
import { headersOf, routesOf, translatesChat } from '../connectors/providers.ts';
import { type ModelDeps, servedModels, unservedModels } from '../models/models.service.ts';
import { routingProfiles } from '../profiles/profiles.service.ts';
import type { ReadChanges } from './changeFeed.ts';

/** Everything that a proxy needs besides keys, at one revision. */
export async function readTables(
  deps: ModelDeps,
): Promise<{ readonly revision: bigint; readonly rows: SizedRow[] }> {
  return await atOneTime(deps, async (tx) => {
    return { revision: await currentRevision(tx), rows: await readRows({ ...deps, db: tx }, 'all') };
  });
}

/** The changes after a revision, in order, at most `limit`, and the rows that they may have changed, as of the last of them. */
export async function readChanges(deps: ModelDeps, after: bigint, limit: number): Promise<ReadChanges> {
  return await atOneTime(deps, async (tx) => {
    const changes = await changesAfter(tx, after, limit);
    const scope = scopeOf(changes);
    return { changes, tables: scope && { scope, rows: await readRows({ ...deps, db: tx }, scope) } };
  });
}

/** All statements see the same state. */
function atOneTime<Result>({ db }: ModelDeps, read: (tx: Tx) => Promise<Result>): Promise<Result> {
  return db.transaction().setIsolationLevel('repeatable read').execute(read);
}

/** Of a scope at least. */
async function readRows(deps: ModelDeps, scope: TableScope): Promise<SizedRow[]> {
  const ids = scope === 'all' ? undefined : [...scope];
  const names = { profiles: await routingProfiles(deps.db), aliases: await routedAliases(deps.db) };
  if (ids?.length === 0) return tableRows({ ...names, connectors: [], models: [], unserved: [] });
  const connectors = await usableConnectors(deps);
  const { models, negotiated } = await servedModels(deps.db, connectors, { ids });
  return tableRows({
    ...names,
    connectors: connectors.map((row) => connectorForProxies(row, negotiated.get(row.id) ?? [])),
    models: models.map((row) => ({ ...row, avgScore: averageScore(row) })),
    unserved: await unservedModels(deps.db, models, ids),
  });
}

export function connectorForProxies(
  row: UsableConnector,
  negotiated: readonly NegotiatedPrice[],
): ConnectorColumns {
  const forwardHeaders = [...headersOf(row.provider), ...row.forward_headers];
  const isTranslated = translatesChat(row);
  // Proxies of an earlier release send them as they are.
  const routes: readonly RouteName[] = isTranslated ? [...routesOf(row), 'chat_completions'] : routesOf(row);
  return { ...row, negotiated, routes, translatesChat: isTranslated, forwardHeaders };
}

function averageScore({ benchmark_scores }: PricedModel): number | undefined {
  return benchmarkScores(benchmark_scores as Record<string, number>).avg_score;
}
