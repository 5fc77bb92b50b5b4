import type { Database } from '@weighbridge/database';
import {
  type ClassCost,
  costByClass,
  type MeteredUsage,
  moneyFromNano,
  PRICE_FIELDS,
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
  return price && costByClass(usageOf(attempt), price, attempt.cost_nano_usd);
}

/** The ledger's classes of text include the other modalities; those of a price do not. */
function usageOf(row: AttemptRow): MeteredUsage {
  const { serviceTier, speed, geography, toolUses, ...details } = detailsOf(row);
  const { inputAudioTokens, inputImageTokens, cacheReadAudioTokens, outputAudioTokens, outputImageTokens } =
    details;
  return {
    tokens: {
      inputTokens: row.input_tokens - inputAudioTokens - inputImageTokens,
      cacheReadTokens: row.cache_read_tokens - cacheReadAudioTokens,
      cacheWriteTokens: row.cache_write_tokens,
      cacheWrite1hTokens: row.cache_write_1h_tokens,
      outputTokens: row.output_tokens - outputAudioTokens - outputImageTokens,
      inputAudioTokens,
      inputImageTokens,
      cacheReadAudioTokens,
      outputAudioTokens,
      outputImageTokens,
    },
    service: { serviceTier, speed, geography },
    toolUses,
  };
}

function present({ of, quantity, price, costNanoUsd }: ClassCost): PresentedCost {
  return {
    class: typeof of === 'string' ? PRICE_FIELDS[of].replace(/_price$/, '') : `tool:${of.tool}`,
    quantity,
    price: moneyFromNano(price),
    cost_nano_usd: String(costNanoUsd),
  };
}
