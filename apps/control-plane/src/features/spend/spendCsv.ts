import type { SpendRow as LedgerSpendRow, SpendDimension } from '@weighbridge/ledger';
import type { SpendRow } from './spend.schemas.ts';
import { presentSpend } from './spend.ts';
import { isNamed, type SpendNames } from './spendNames.ts';

const NUMBERS = [
  'requests',
  'attempts',
  'estimated_requests',
  'errors',
  'input_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'cache_write_1h_tokens',
  'output_tokens',
  'cost_micro_usd',
  'cost_nano_usd',
] as const satisfies readonly (keyof SpendRow)[];

export function spendCsvHeader(groupBy: readonly SpendDimension[]): string {
  const names = groupBy.filter(isNamed).map((dimension) => `${dimension}_name`);
  return record(['bucket_start', ...groupBy.map(text), ...NUMBERS, ...names]);
}

export function spendCsvRecord(
  groupBy: readonly SpendDimension[],
  row: LedgerSpendRow,
  names: SpendNames,
): string {
  const shown = presentSpend(groupBy, row, names);
  return record([
    shown.bucket_start ?? '',
    ...row.group.map((value) => text(value ?? '')),
    ...NUMBERS.map((name) => String(shown[name])),
    ...Object.values(shown.names).map((name) => text(name ?? '')),
  ]);
}

/** Prefixes a value that a spreadsheet would run as a formula with an apostrophe, which makes it text. */
export function text(value: string): string {
  return /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
}

/** One record, quoted as in RFC 4180. */
export function record(fields: readonly string[]): string {
  return `${fields.map((field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(',')}\r\n`;
}
