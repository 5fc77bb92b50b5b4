/** A column of a table: its heading, and the cell of an item. */
export type Column<T> = readonly [heading: string, value: (item: T) => CellValue];
type CellValue = string | number | boolean | null | undefined | readonly string[];

/** Control characters and those that change the direction of text: a name that a caller chose must not control a terminal. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the characters to replace.
const UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A value as one line that is safe to print on a terminal. */
export function printable(value: CellValue): string {
  if (value === null || value === undefined || value === '') return '-';
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  const text = typeof value === 'object' ? value.join(', ') || '-' : String(value);
  return text.replace(UNPRINTABLE, '\ufffd');
}

/** Rows under headings; each column is as wide as its widest cell. */
export function formatTable<T>(items: readonly T[], columns: readonly Column<T>[]): string {
  const rows = [
    columns.map(([heading]) => heading),
    ...items.map((item) => columns.map(([, value]) => printable(value(item)))),
  ];
  const widths = columns.map((_, at) => Math.max(...rows.map((row) => width(row[at] ?? ''))));
  return rows
    .map((row) => row.map((cell, at) => cell + ' '.repeat((widths[at] ?? 0) - width(cell))).join('  '))
    .map((line) => line.trimEnd())
    .join('\n');
}

/** An object, one line per field. Nested objects become JSON. */
export function formatFields(thing: Readonly<Record<string, unknown>>): string {
  const lines = Object.entries(thing).map(([field, value]) => ({ field, value: fieldText(value) }));
  const widest = Math.max(0, ...lines.map(({ field }) => field.length));
  return lines.map(({ field, value }) => `${field.padEnd(widest)}  ${value}`).join('\n');
}

function fieldText(value: unknown): string {
  if (Array.isArray(value) && value.every((item) => typeof item === 'string')) return printable(value);
  if (typeof value === 'object' && value !== null) return printable(JSON.stringify(value));
  return printable(value as CellValue);
}

/** Micro-USD as exact dollars: `$0.000123`, `$12.50`. */
export function usd(microUsd: number | null): string {
  if (microUsd === null) return 'unlimited';
  const sign = microUsd < 0 ? '-' : '';
  const digits = String(Math.abs(microUsd)).padStart(7, '0');
  const fraction = digits.slice(-6).replace(/0{1,4}$/, '');
  return `${sign}$${digits.slice(0, -6)}.${fraction}`;
}

/** An exact number of nano-USD as dollars: `$0.000000123`, `$12.50`. */
export function usdOfNano(nanoUsd: string): string {
  const sign = nanoUsd.startsWith('-') ? '-' : '';
  const digits = nanoUsd.replace('-', '').padStart(10, '0');
  const fraction = digits.slice(-9).replace(/0{1,7}$/, '');
  return `${sign}$${digits.slice(0, -9)}.${fraction}`;
}

/** A price per one million tokens, in dollars. */
export function price(money: { readonly units: number; readonly nanos: number } | null): string {
  if (money === null) return '-';
  const fraction = String(money.nanos)
    .padStart(9, '0')
    .replace(/0{1,7}$/, '');
  return `$${money.units}.${fraction}`;
}

/** A time without its fraction of a second. */
export function time(text: string | null): string {
  return text === null ? '-' : text.replace(/\.\d+Z$/, 'Z');
}

/** The width of a text on a terminal, taken as its number of characters. */
function width(text: string): number {
  return Array.from(text).length;
}
