import type { SpendDimension, SpendRow } from '@weighbridge/ledger';
import { type PresentedSpend, presentSpend } from './spend.ts';

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
] as const satisfies readonly (keyof PresentedSpend)[];

export function spendCsvHeader(groupBy: readonly SpendDimension[]): string {
  return record(['bucket_start', ...groupBy.map(text), ...NUMBERS]);
}

export function spendCsvRecord(groupBy: readonly SpendDimension[], row: SpendRow): string {
  const shown = presentSpend(groupBy, row);
  return record([
    shown.bucket_start ?? '',
    ...row.group.map((value) => text(value ?? '')),
    ...NUMBERS.map((name) => String(shown[name])),
  ]);
}

/** A value that a spreadsheet would take for a formula gets an apostrophe in front, which makes it text there. */
function text(value: string): string {
  return /^[=+\-@\t\r\n]/.test(value) ? `'${value}` : value;
}

/** RFC 4180. */
function record(fields: readonly string[]): string {
  return `${fields.map((field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(',')}\r\n`;
}
