import type { Tx } from '@weighbridge/database';
import { insertModels } from '../catalog/catalog.service.ts';
import { recordChanges } from '../changes/changes.service.ts';
import type { NewModel } from './newModels.ts';

/** The actor of what the feed changes. */
export const FEED_ACTOR = { principalId: 'catalog_feed', identity: null } as const;

/** Adds models; no one can use one before it has a price. */
export async function addModels(tx: Tx, models: readonly NewModel[], now: Date): Promise<void> {
  const rows = models.map(({ id, provider, upstreamName, otherNames, own, facts }) => ({
    row: { id, provider, origin: 'feed', disabled: false, updated_at: now } as const,
    facts: {
      upstream_name: upstreamName,
      context_window: facts.contextWindow,
      max_output_tokens: facts.maxOutputTokens,
      capabilities: facts.capabilities,
      benchmark_scores: {},
      deprecated_at: null,
      other_names: otherNames,
      own,
    },
    shipped: null,
  }));
  await insertModels(tx, rows);
  await recordChanges(
    tx,
    models.map(({ id, heldBecause: because }) => ({
      actor: FEED_ACTOR,
      action: 'model.added_by_feed',
      resourceId: id,
      detail: { held_because: because ?? null },
      at: now,
    })),
  );
}
