import {
  everyMs,
  isTimezone,
  LIMIT_DEFAULTS,
  microFromNano,
  nanoFromMicro,
  newId,
} from '@weighbridge/domain';
import { AppError } from '@weighbridge/errors';
import { isByAttribution, type LimitColumn } from '@weighbridge/state';
import { problemOfValue } from '../../shared/attributionValues.ts';
import { validDisplayName } from '../../shared/displayName.ts';
import { fieldChanges } from '../../shared/fieldChanges.ts';
import { isAttributionName, namesOf } from './attributionNames.ts';
import { MAX_LIMITS, type PolicyLimit } from './policies.schemas.ts';
import { sortedThresholds } from './policies.ts';

type CompleteLimit = Required<Omit<PolicyLimit, 'id'>>;

/**
 * The further limits of a policy that has `before`. One with the id of an earlier limit is that one, else one with its name; any other
 * is new. Throws a 422 that names the field.
 */
export function limitColumns(
  given: readonly PolicyLimit[],
  before: readonly LimitColumn[],
  now: Date,
): LimitColumn[] {
  const kept = earlierLimits(given, before);
  const names = new Set<string>();
  let amounts = 0;
  return given.map((limit, at) => {
    const field = `limits.${at}`;
    const complete = validLimit({ ...LIMIT_DEFAULTS, ...limit }, field);
    if (names.has(complete.name)) throw invalid(`${field}.name`, 'Two limits of a policy have this name.');
    names.add(complete.name);
    amounts += AMOUNTS.filter((name) => complete[name] !== null).length;
    if (RATES.some((name) => complete[name] !== null)) amounts++;
    if (amounts > MAX_LIMITS) {
      throw invalid(
        field,
        `The limits of a policy have at most ${MAX_LIMITS} amounts together. The rates of a limit are one of them.`,
      );
    }
    return column(complete, kept[at], now);
  });
}

/** A limit has at least one of them, or of the rates. */
const AMOUNTS = ['limit_micro_usd', 'limit_requests', 'limit_tokens'] as const;
const RATES = ['requests_per_minute', 'tokens_per_minute', 'max_parallel'] as const;

/** What the operator gave, with the defaults. */
export function presentLimit(limit: LimitColumn): PolicyLimit {
  const { limit_nano_usd: amount, others_limit_nano_usd: others } = limit;
  return {
    id: limit.id,
    name: limit.name,
    models: [...limit.models],
    when: { ...limit.when },
    counter_scope: limit.counter_scope,
    unknown: limit.unknown,
    limit_micro_usd: amount === null ? null : microFromNano(BigInt(amount)),
    limit_requests: limit.limit_requests ?? null,
    limit_tokens: limit.limit_tokens ?? null,
    requests_per_minute: limit.requests_per_minute ?? null,
    tokens_per_minute: limit.tokens_per_minute ?? null,
    max_parallel: limit.max_parallel ?? null,
    window: presentWindow(limit),
    timezone: limit.timezone,
    enforcement: limit.enforcement,
    thresholds: [...limit.thresholds],
    max_counters: limit.max_counters,
    others_limit_micro_usd: limit.has_own_others && others !== null ? microFromNano(BigInt(others)) : null,
  };
}

function windowColumns(window: CompleteLimit['window']): Pick<LimitColumn, 'window_kind' | 'window_every'> {
  return typeof window === 'string'
    ? { window_kind: window, window_every: null }
    : { window_kind: window.from, window_every: window.every };
}

function presentWindow({ window_kind, window_every }: LimitColumn): CompleteLimit['window'] {
  return window_kind === 'first_use' ? { every: window_every ?? '', from: window_kind } : window_kind;
}

/** How a list of limits differs from another, as the audit log shows it: by name, with the fields that differ. */
export function limitChanges(before: readonly PolicyLimit[], after: readonly PolicyLimit[]) {
  const earlier = new Map(before.map((limit) => [limit.id, limit]));
  const ids = new Set(after.map(({ id }) => id));
  const added = after.filter(({ id }) => !earlier.has(id));
  const removed = before.filter(({ id }) => !ids.has(id)).map(({ name }) => name);
  const changed = after.flatMap((limit) => {
    const fields = fieldChanges<PolicyLimit>(earlier.get(limit.id) ?? limit, limit);
    return Object.keys(fields).length === 0 ? [] : [[limit.name, fields] as const];
  });
  return {
    ...(added.length > 0 && { added }),
    ...(removed.length > 0 && { removed }),
    ...(changed.length > 0 && { changed: Object.fromEntries(changed) }),
  };
}

/** By place: the earlier limit that a given one is. */
function earlierLimits(
  given: readonly PolicyLimit[],
  before: readonly LimitColumn[],
): (LimitColumn | undefined)[] {
  const byId = new Map(before.map((limit) => [limit.id, limit]));
  const named = new Set<string>();
  for (const [at, { id }] of given.entries()) {
    if (id === undefined) continue;
    if (!byId.has(id)) throw invalid(`limits.${at}.id`, 'This policy has no limit with this id.');
    if (named.has(id)) throw invalid(`limits.${at}.id`, 'Two limits of the list have this id.');
    named.add(id);
  }
  const unnamed = new Map(before.filter(({ id }) => !named.has(id)).map((limit) => [limit.name, limit]));
  return given.map(({ id, name }) => (id === undefined ? unnamed.get(name) : byId.get(id)));
}

function column(limit: CompleteLimit, earlier: LimitColumn | undefined, now: Date): LimitColumn {
  const amount = limit.limit_micro_usd === null ? null : String(nanoFromMicro(limit.limit_micro_usd));
  const others = limit.others_limit_micro_usd;
  const settings = {
    id: earlier?.id ?? newId('lim'),
    name: limit.name,
    models: limit.models,
    when: limit.when,
    counter_scope: limit.counter_scope,
    unknown: limit.unknown,
    limit_nano_usd: amount,
    limit_requests: limit.limit_requests,
    limit_tokens: limit.limit_tokens,
    requests_per_minute: limit.requests_per_minute,
    tokens_per_minute: limit.tokens_per_minute,
    max_parallel: limit.max_parallel,
    ...windowColumns(limit.window),
    timezone: limit.timezone,
    enforcement: limit.enforcement,
    thresholds: sortedThresholds(limit.thresholds),
    max_counters: limit.max_counters,
    others_limit_nano_usd: others === null ? amount : String(nanoFromMicro(others)),
    has_own_others: others !== null,
  };
  if (earlier && countedBy(settings) === countedBy(earlier)) {
    const { counter_version, counter_since } = earlier;
    return { ...settings, counter_version, counter_since };
  }
  const counter_version = (earlier?.counter_version ?? 0) + 1;
  return { ...settings, counter_version, counter_since: now.toISOString() };
}

/** What a limit counts, and in which counters. If it changes, new counters start from nothing. */
function countedBy({
  models,
  when,
  counter_scope,
  unknown,
  window_kind,
  window_every = null,
  timezone,
}: Pick<
  LimitColumn,
  'models' | 'when' | 'counter_scope' | 'unknown' | 'window_kind' | 'window_every' | 'timezone'
>): string {
  const conditions = Object.entries(when).sort(([a], [b]) => (a < b ? -1 : 1));
  const window = [window_kind, window_every === null ? null : everyMs(window_every)];
  return JSON.stringify([[...models].sort(), conditions, counter_scope, unknown, window, timezone]);
}

const HOUR_MS = 3_600_000;
const MAX_WINDOW_MS = 90 * 24 * HOUR_MS;
const WHEN = ['user', 'team', 'project', 'env', 'workload_type', 'namespace'] as const;
const SCOPES = [
  ...['key', 'principal', 'policy'],
  ...['user', 'team', 'project', 'env', 'session', 'workload', 'namespace'],
];

const LABEL_SCOPE = 'label:';

function validLimit(limit: CompleteLimit, field: string): CompleteLimit {
  const { when, counter_scope: scope, timezone, enforcement } = limit;
  for (const [name, value] of Object.entries(when)) {
    if (!isAttributionName(name, WHEN)) {
      throw invalid(
        `${field}.when`,
        `There is no attribution of the name ${JSON.stringify(name)}: use ${namesOf(WHEN)}.`,
      );
    }
    const problem = problemOfValue(value);
    if (problem) throw invalid(`${field}.when.${name}`, `The value would match no request: it ${problem}.`);
  }
  if (!isAttributionName(scope, SCOPES, LABEL_SCOPE)) {
    throw invalid(`${field}.counter_scope`, `counter_scope must be one of ${namesOf(SCOPES, LABEL_SCOPE)}.`);
  }
  if ([...AMOUNTS, ...RATES].every((name) => limit[name] === null)) {
    const all = [...AMOUNTS, ...RATES].join(', ');
    throw invalid(`${field}.limit_micro_usd`, `A limit needs an amount or a rate: at least one of ${all}.`);
  }
  if (limit.limit_micro_usd === null && limit.others_limit_micro_usd !== null) {
    throw invalid(
      `${field}.others_limit_micro_usd`,
      'The limit has no limit_micro_usd, so its counter `others` has none.',
    );
  }
  const { window } = limit;
  if (typeof window !== 'string') {
    const ms = everyMs(window.every);
    if (ms < HOUR_MS || ms > MAX_WINDOW_MS) {
      throw invalid(`${field}.window.every`, 'A window that opens on first use lasts from 1h to 90d.');
    }
    if (enforcement === 'shadow') {
      throw invalid(
        `${field}.enforcement`,
        'A limit whose windows open on first use cannot be in shadow. Use enforce or off, or another window.',
      );
    }
  }
  if (!isTimezone(timezone)) {
    throw invalid(`${field}.timezone`, 'timezone must be an IANA name such as Europe/Berlin or UTC.');
  }
  if (enforcement === 'shadow' && isByAttribution(limit)) {
    throw invalid(
      `${field}.enforcement`,
      'A limit with a counter for each value of attribution cannot be in shadow. Use enforce or off, or another counter_scope.',
    );
  }
  return { ...limit, name: validDisplayName(limit.name, `${field}.name`) };
}

function invalid(param: string, message: string): AppError {
  return new AppError('validation', 'limit_invalid', message, { param });
}
