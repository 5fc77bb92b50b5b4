import type { Database } from '@weighbridge/database';
import {
  byClass,
  CLASS_NAMES,
  type ClassCost,
  costByClass,
  MEDIA_CLASSES,
  type MediaClass,
  type MeteredUsage,
  moneyFromNano,
  PART_OF,
  type TokenClass,
  usageOf,
} from '@weighbridge/domain';
import { type AttemptRow, detailsOf } from '@weighbridge/ledger';
import { priceOfVersion } from '../responses/attemptPrices.service.ts';
import type { AttemptCost, ClassCost as PresentedCost } from './requests.schemas.ts';

/** What each attempt cost by token class, where the price that it was charged at tells. */
export async function costsOf(db: Database, attempts: readonly AttemptRow[]): Promise<AttemptCost[]> {
  const costs: AttemptCost[] = [];
  for (const attempt of attempts) {
    const parts = await partsOf(db, attempt);
    costs.push({ event_id: attempt.event_id, by_class: parts?.map(present) ?? null });
  }
  return costs;
}

async function partsOf(db: Database, attempt: AttemptRow): Promise<readonly ClassCost[] | undefined> {
  if (attempt.cache_hit) return [];
  // The version is that of the attempt's model.
  if (detailsOf(attempt).pricedModel !== '') return undefined;
  const price = await priceOfVersion(db, attempt);
  return price && costByClass(meteredUsageOf(attempt), price, attempt.cost_nano_usd);
}

/** The ledger's classes of text include the other modalities; those of a price do not. */
function meteredUsageOf(row: AttemptRow): MeteredUsage {
  const { serviceTier, speed, geography, toolUses, ...details } = detailsOf(row);
  const counts: Record<TokenClass, number> = {
    ...byClass((one) => (one in PART_OF ? details[`${one as MediaClass}Tokens`] : 0)),
    input: row.input_tokens,
    output: row.output_tokens,
    cacheRead: row.cache_read_tokens,
    cacheWrite: row.cache_write_tokens,
    cacheWrite1h: row.cache_write_1h_tokens,
  };
  for (const media of MEDIA_CLASSES) counts[PART_OF[media]] -= counts[media];
  return { tokens: usageOf(counts), service: { serviceTier, speed, geography }, toolUses };
}

function present({ of, quantity, price, costNanoUsd }: ClassCost): PresentedCost {
  return {
    class: typeof of === 'string' ? CLASS_NAMES[of] : `tool:${of.tool}`,
    quantity,
    price: moneyFromNano(price),
    cost_nano_usd: String(costNanoUsd),
  };
}
