import type { CountUnit } from '@weighbridge/budget';
import { microFromNano } from '@weighbridge/domain';

/** The fields of an event that say how much a counter may count, and has: in micro-USD, or in what else it counts. */
export function amountFields(
  unit: CountUnit | undefined,
  { limit, spent }: { readonly limit: bigint; readonly spent: bigint },
): Record<string, number> {
  return unit
    ? { [`limit_${unit}`]: Number(limit), [`spent_${unit}`]: Number(spent) }
    : { limit_micro_usd: microFromNano(limit), spent_micro_usd: microFromNano(spent) };
}
