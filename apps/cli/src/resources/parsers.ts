import type { components } from '@weighbridge/client';
import { type Command, InvalidArgumentError, Option } from 'commander';

type CacheSettings = components['schemas']['CacheSettings'];

/** `--limit` and `--all`. */
export function listOptions(command: Command): Command {
  return command
    .option('--limit <n>', 'show at most N items', parsePositiveInteger, 100)
    .option('--all', 'show all items');
}

export function limitOf(options: { limit: number; all?: boolean }): number | undefined {
  return options.all ? undefined : options.limit;
}

/** Where commander puts the value of the option `--NAME`. */
export function attributeOf(name: string): string {
  return new Option(`--${name} <value>`).attributeName();
}

export function parsePositiveInteger(text: string): number {
  if (/^\d{1,9}$/.test(text) && Number(text) > 0) return Number(text);
  throw new InvalidArgumentError('It must be a whole number greater than 0.');
}

/** Dollars as micro-USD, read digit by digit, never through a float. */
export function parseMicroUsd(text: string, orElse = ''): number {
  const [, units, fraction = ''] = /^\$?(\d{1,9})(?:\.(\d{1,6}))?$/.exec(text) ?? [];
  if (units === undefined) {
    throw new InvalidArgumentError(
      `It must be an amount of dollars with at most six decimals, such as 50 or 0.25${orElse}.`,
    );
  }
  return Number(`${units}${fraction.padEnd(6, '0')}`);
}

/** An amount other than zero; with a minus it is given back. */
export function parseSignedMicroUsd(text: string): number {
  const amount = parseMicroUsd(text.replace(/^[-+]/, ''), ', with a minus to give back');
  if (amount === 0) throw new InvalidArgumentError('It must not be 0.');
  return text.startsWith('-') ? -amount : amount;
}

const SECONDS = { s: 1, m: 60, h: 3_600, d: 86_400 } as const;

/** `90s`, `15m`, `12h` or `30d`, in seconds. */
export function parseDuration(text: string): number {
  const [, amount, unit] = /^(\d{1,7})([smhd])$/.exec(text) ?? [];
  if (amount === undefined || unit === undefined) {
    throw new InvalidArgumentError('It must be a duration such as 90s, 15m, 12h or 30d.');
  }
  return Number(amount) * SECONDS[unit as keyof typeof SECONDS];
}

const TIME = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2}))?$/i;

/** A date-time, a day, or a duration from now. */
export function parseTime(now: () => Date): (text: string) => string {
  return (text) => {
    if (/^\d{1,7}[smhd]$/.test(text))
      return new Date(now().getTime() + parseDuration(text) * 1_000).toISOString();
    // A time without an offset would depend on the machine. Days begin in UTC.
    const at = new Date(text);
    if (TIME.test(text) && !Number.isNaN(at.getTime())) return at.toISOString();
    throw new InvalidArgumentError(
      'It must be a date-time such as 2030-01-31T00:00:00Z, a day such as 2030-01-31 (UTC), or a duration such as 30d.',
    );
  };
}

/** Collects the values of an option that may be repeated, or given with commas. */
export function collectList(text: string, before: readonly string[] | undefined): string[] {
  return [...(before ?? []), ...text.split(',').map((part) => part.trim())].filter((part) => part !== '');
}

/** Who shares cached responses, and for how long. */
export const CACHE = {
  flag: 'cache <scope:seconds>',
  text: 'who shares cached responses, and for how long: such as policy:3600 or principal:60, or none',
  read: (text: string): CacheSettings => {
    const [, scope, seconds] = /^(principal|policy):(\d{1,7})$/.exec(text) ?? [];
    if (scope === undefined) {
      throw new InvalidArgumentError('It must be principal or policy, ":" and a number of seconds, or none.');
    }
    return { scope: scope as CacheSettings['scope'], ttl_seconds: Number(seconds) };
  },
};
