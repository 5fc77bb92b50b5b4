import { isDeepStrictEqual } from 'node:util';
import { API_PRICE, comparablePrice, LIMIT_DEFAULTS, readPrice } from '@weighbridge/domain';

type Json = Record<string, unknown>;

/** An amount of dollars for the API, read digit by digit. Throws unless it is a decimal of at most nine places. */
export function moneyFromDecimal(text: string): { currency_code: 'USD'; units: number; nanos: number } {
  const [, units, fraction = ''] = /^(\d{1,6})(?:\.(\d{1,9}))?$/.exec(text) ?? [];
  if (units === undefined) throw new Error(`"${text}" is not an amount of dollars such as 0.15`);
  return { currency_code: 'USD', units: Number(units), nanos: Number(fraction.padEnd(9, '0')) };
}

/** The limit of a policy in dollars, as on the command line; the API has `limit_micro_usd`. */
export const LIMIT_USD = 'limit_usd';
const MICRO_DIGITS = 6;

/** Replaces `limit_usd` by `limit_micro_usd`, also in further limits. Throws if both are given, or if it is no amount. */
export function withMicroUsd(fields: Json): Json {
  const read = limitInMicroUsd(fields, LIMIT_USD);
  if (!Array.isArray(read.limits)) return read;
  const limits = (read.limits as Json[]).map((limit, at) =>
    limitInMicroUsd(limit, `limits.${at}.${LIMIT_USD}`),
  );
  return { ...read, limits };
}

function limitInMicroUsd(fields: Json, param: string): Json {
  if (!(LIMIT_USD in fields)) return fields;
  const { [LIMIT_USD]: limit, ...others } = fields;
  if ('limit_micro_usd' in others)
    throw inField(param, 'limit_usd and limit_micro_usd are the same: give one');
  const mayBeUnlimited = param === LIMIT_USD;
  if (mayBeUnlimited && (limit === null || limit === 'unlimited'))
    return { ...others, limit_micro_usd: null };
  const [, units, fraction = ''] = /^(\d{1,9})(?:\.(\d{1,6})0*)?$/.exec(String(limit)) ?? [];
  if (units === undefined) {
    const or = mayBeUnlimited ? ', nor unlimited' : '';
    throw inField(param, `"${String(limit)}" is not an amount of dollars such as 12.50${or}`);
  }
  return {
    ...others,
    limit_micro_usd: Number(units) * 10 ** MICRO_DIGITS + Number(fraction.padEnd(MICRO_DIGITS, '0')),
  };
}

function inField(param: string, message: string): Error {
  return Object.assign(new Error(message), { param });
}

/** Whether a field already has the desired value. */
export function matchesDesired(field: string, desired: unknown, actual: unknown): boolean {
  return isDeepStrictEqual(normal(field, desired), normal(field, actual));
}

/** A value as the service stores it, so that different spellings of it are equal. */
function normal(field: string, value: unknown): unknown {
  if (value === null || value === undefined) return value ?? null;
  switch (field) {
    case 'thresholds':
      return [...new Set(value as number[])].sort((a, b) => a - b);
    case 'limits':
      return (value as Json[]).map(({ id: _, ...limit }) => ({
        ...LIMIT_DEFAULTS,
        ...limit,
        thresholds: normal('thresholds', limit.thresholds ?? []),
      }));
    case 'attribution_headers':
      return Object.fromEntries(
        Object.entries(value as Json).map(([header, attribution]) => [header.toLowerCase(), attribution]),
      );
    case 'models':
    case 'capabilities':
    case 'other_names':
    case 'allowed_models':
    case 'hard_allow_fields':
      return [...new Set(value as string[])];
    case 'name':
      return String(value).trim();
    case 'deprecated_at':
    case 'expires_at':
    case 'ends_at':
      return new Date(value as string).getTime();
    case 'events':
      return [...new Set(value as string[])].sort();
    case 'filter':
      return Object.fromEntries(
        ['policy_ids', 'team_ids'].map((ids) => [ids, [...new Set((value as Json)[ids] as string[])].sort()]),
      );
    case 'url':
      return URL.canParse(String(value)) ? new URL(String(value)).href : value;
    case 'base_url':
      return URL.canParse(String(value)) ? new URL(String(value)).href.replace(/\/+$/, '') : value;
    case 'targets':
      return (value as Json[]).map((target) => ({ weight: 1, ...target }));
    case 'price':
      return comparablePrice(readPrice(API_PRICE, value as Json));
    default:
      return value;
  }
}
