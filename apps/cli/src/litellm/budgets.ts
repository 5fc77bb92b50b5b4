import { MAX_LIMIT_MICRO_USD } from '@weighbridge/domain';
import type { Json } from '../apply/desiredState.ts';
import { asObject } from './deployment.ts';
import type { Report } from './report.ts';
import { text } from './values.ts';

/** An amount in each window. */
export interface Budget {
  readonly limit_micro_usd: number;
  readonly window: 'hour' | 'day' | 'week' | 'month' | 'none';
}

/** A policy takes no more. */
const MAX_LIMITS = 50;
const MAX_USD = 10 ** 9;
const WINDOWS = [
  ['hour', 3_600],
  ['day', 86_400],
  ['week', 604_800],
  ['month', 2_592_000],
] as const;

/** The budget of a row; undefined if it has none. */
export function budgetOf(row: Json, at: string, report: Report): Budget | undefined {
  const { max_budget: max, budget_duration: duration } = row;
  return budgetFrom(max, duration, { at, max: 'max_budget', duration: 'budget_duration' }, report);
}

interface Fields {
  readonly at: string;
  readonly max: string;
  readonly duration: string;
}

/**
 * LiteLLM's budget has a duration, ours a calendar window. If no window has that length, it becomes the longest shorter
 * window, with a proportionally lower limit.
 */
export function budgetFrom(
  max: unknown,
  givenDuration: unknown,
  fields: Fields,
  report: Report,
): Budget | undefined {
  if (max === undefined || max === null || max === '') return undefined;
  const limit = microUsd(max);
  if (limit === undefined) {
    report.addSkipped(`${fields.at}: ${fields.max}`, "it can't be read, so the limit is 0 until you set it");
    return { limit_micro_usd: 0, window: 'none' };
  }
  const duration = text(givenDuration);
  if (duration === undefined) return { limit_micro_usd: limit, window: 'none' };
  const at = `${fields.at}: ${fields.duration}`;
  const seconds = secondsOf(duration);
  const fitting = WINDOWS.filter(([, length]) => seconds !== undefined && length <= seconds).at(-1);
  if (seconds === undefined || fitting === undefined) {
    report.addConverted(
      at,
      'window none',
      `there is no window of ${duration}; the budget never starts again`,
    );
    return { limit_micro_usd: limit, window: 'none' };
  }
  const [window, length] = fitting;
  // A month has 28 to 31 days.
  const isWhole = length === seconds || (window === 'month' && seconds <= 31 * 86_400);
  if (isWhole) {
    report.addConverted(
      at,
      `window ${window}`,
      'it follows the calendar in UTC, not the creation of the key',
    );
    return { limit_micro_usd: limit, window };
  }
  const less = Number((BigInt(limit) * BigInt(length)) / BigInt(seconds));
  report.addConverted(
    at,
    `window ${window}`,
    `there is no window of ${duration}; the limit is proportionally lower`,
  );
  return { limit_micro_usd: less, window };
}

/** The further limits of a key or team: its budgets by model, and those of several durations. */
export function furtherLimitsOf(
  row: Json,
  at: string,
  counter_scope: 'key' | 'policy',
  groups: ReadonlyMap<string, readonly string[]>,
  report: Report,
): Json[] {
  const byModel = Object.entries(asObject(parsed(row.model_max_budget))).flatMap(([model, given]) => {
    const field = `model_max_budget.${model}`;
    const budget = budgetNamed(given, `${at}: ${field}`, report);
    const models = groups.get(model) ?? (model.includes('/') ? [model] : []);
    if (budget && models.length === 0) report.addSkipped(`${at}: ${field}`, 'the config has no such group');
    if (!budget || models.length === 0) return [];
    report.addConverted(`${at}: ${field}`, `limit ${model}`, 'it counts the models behind the name');
    return [{ name: model, models: [...models], counter_scope, ...budget }];
  });
  const several = parsed(row.budget_limits);
  const byDuration = (Array.isArray(several) ? several : []).flatMap((given, index) => {
    const field = `${at}: budget_limits[${index}]`;
    const budget = budgetNamed(given, field, report);
    if (!budget) return [];
    const name = `each ${budget.window === 'none' ? 'key in all' : budget.window}`;
    report.addConverted(field, `limit ${name}`);
    return [{ name, counter_scope, ...budget }];
  });
  return named([...byModel, ...byDuration], at, report);
}

/** A budget in either of the forms that LiteLLM has: an amount, or an object with a duration. */
export function budgetNamed(given: unknown, at: string, report: Report): Budget | undefined {
  if (typeof given !== 'object' || given === null) {
    return budgetFrom(given, undefined, { at, max: 'amount', duration: '' }, report);
  }
  const { max_budget, budget_limit, budget_duration, time_period } = given as Json;
  const duration = budget_duration === undefined ? 'time_period' : 'budget_duration';
  const fields = { at, max: max_budget === undefined ? 'budget_limit' : 'max_budget', duration };
  const budget = budgetFrom(max_budget ?? budget_limit, budget_duration ?? time_period, fields, report);
  if (!budget) report.addSkipped(at, 'it has no amount');
  return budget;
}

/** Limits with names of their own, as many as a policy takes. */
export function named(limits: readonly Json[], at: string, report: Report): Json[] {
  const names = new Set<string>();
  const unique = limits.map((limit) => {
    const wanted = String(limit.name).slice(0, 90);
    const name = names.has(wanted) ? `${wanted} ${names.size + 1}` : wanted;
    names.add(name);
    return { ...limit, name };
  });
  for (const { name } of unique.slice(MAX_LIMITS))
    report.addSkipped(`${at}: ${name}`, `a policy has at most ${MAX_LIMITS} further limits`);
  return unique.slice(0, MAX_LIMITS);
}

/** Stands for no limit where a counter must have one. */
export const UNLIMITED_MICRO_USD = MAX_LIMIT_MICRO_USD;

/** Also as JSON in a cell of a CSV. */
function parsed(value: unknown): unknown {
  if (typeof value !== 'string' || !/^\s*[[{]/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return undefined;
  }
}

function secondsOf(duration: string): number | undefined {
  const [, many, unit] = /^(\d{1,6})(s|m|h|d|w|mo)$/.exec(duration) ?? [];
  const units: Readonly<Record<string, number>> = {
    s: 1,
    m: 60,
    h: 3_600,
    d: 86_400,
    w: 604_800,
    mo: 2_592_000,
  };
  const named: Readonly<Record<string, number>> = {
    hourly: 3_600,
    daily: 86_400,
    weekly: 604_800,
    monthly: 2_592_000,
  };
  if (unit !== undefined) return Number(many) * (units[unit] ?? Number.NaN);
  return named[duration];
}

/** Rounded down to a micro-dollar: LiteLLM computes in floats, and further digits have no meaning. */
function microUsd(dollars: unknown): number | undefined {
  const given = numeric(dollars);
  if (typeof given !== 'number' || !(given >= 0) || given > MAX_USD) return undefined;
  const [units = '', fraction = ''] = given.toFixed(7).slice(0, -1).split('.');
  return Number(units) * 1_000_000 + Number(fraction);
}

/** The cells of a CSV are text, also those of numbers. */
export function numeric(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return value.trim() === '' || Number.isNaN(Number(value)) ? undefined : Number(value);
}
