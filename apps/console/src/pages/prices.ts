import type { components } from '@weighbridge/client';
import type { FieldSpec } from '../ui/fieldSpecs.ts';
import { money } from '../ui/text.ts';

export function usd({ units, nanos }: components['schemas']['Money']): string {
  return money(units * 1_000_000 + nanos / 1_000);
}

/** The amounts of a price, in USD for a million tokens. */
export const PRICE_SPECS: readonly FieldSpec[] = [
  { name: 'input_price', label: 'Input', kind: 'money', required: true },
  { name: 'output_price', label: 'Output', kind: 'money', required: true },
  { name: 'cache_read_price', label: 'Read from a cache', kind: 'money', hint: 'Empty: as input.' },
  { name: 'cache_write_price', label: 'Written to a cache', kind: 'money', hint: 'Empty: as input.' },
];
