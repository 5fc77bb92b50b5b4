import type { Json } from '../apply/desiredState.ts';
import { count } from '../catalog/importedModel.ts';
import type { Report } from './report.ts';

/** A key that is to be issued here in the place of one of LiteLLM's, whose secret nobody has but its holder. */
export interface KeyToIssue {
  readonly name: string;
  readonly principal: string;
  /** By its name; undefined: what governs the principal. */
  readonly policy: string | undefined;
  readonly disabled: boolean;
  readonly expiresAt: string | undefined;
  /** What tells it from others there: issued twice within a day, it is issued once. */
  readonly origin: string;
}

export interface KeySections {
  readonly policies: readonly Json[];
  readonly principals: readonly Json[];
  readonly keys: readonly KeyToIssue[];
}

const TAKEN = [
  ...[
    'token',
    'key',
    'key_name',
    'key_alias',
    'spend',
    'expires',
    'models',
    'user_id',
    'team_id',
    'team_alias',
  ],
  ...['max_budget', 'soft_budget', 'budget_duration', 'budget_reset_at', 'tpm_limit', 'rpm_limit', 'blocked'],
  ...[
    'max_parallel_requests',
    'created_at',
    'updated_at',
    'created_by',
    'updated_by',
    'last_active',
    'user_email',
  ],
];
/** What LiteLLM writes into every key, used or not. */
const EMPTY = ['', '{}', '[]', 'null', 'false', '0', 'undefined'];
const EVERY_MODEL = ['all-proxy-models', 'all-team-models'];
const MAX_USD = 10 ** 9;

export function mapKeys(
  rows: readonly Json[],
  teams: readonly Json[],
  groups: ReadonlyMap<string, readonly string[]>,
  now: Date,
  report: Report,
): KeySections {
  const policies = new Map<string, Json>();
  const principals = new Map<string, Json>();
  const teamPolicies = new Map<string, string>();
  const blockedTeams = new Set<string>();
  for (const [index, team] of teams.entries()) {
    const id = text(team.team_id);
    if (id === undefined) {
      report.left(`teams[${index}]`, 'it has no team_id');
      continue;
    }
    const name = `litellm team ${text(team.team_alias) ?? id}`.slice(0, 100);
    // All keys of a team draw on one budget there.
    policies.set(name, { name, ...limitsOf(team, `team ${id}`, groups, report), counter_scope: 'policy' });
    teamPolicies.set(id, name);
    if (isTrue(team.blocked)) blockedTeams.add(id);
    reportRest(team, `team ${id}`, report);
    report.taken(`team ${id}`, `policy ${name}`);
  }
  const keys = rows.flatMap((row, index): KeyToIssue[] => {
    const name = (text(row.key_alias) ?? text(row.key_name) ?? `key ${index + 1}`).slice(0, 100);
    const at = `key ${name}`;
    const expiresAt = momentOf(row.expires);
    if (expiresAt && expiresAt <= now) {
      report.left(at, 'it has expired');
      return [];
    }
    const isUnclear = expiresAt !== undefined && Number.isNaN(expiresAt.getTime());
    if (isUnclear) report.left(`${at}: its expiry`, 'it can not be read: the key is issued disabled');
    const team = text(row.team_id);
    const parent = team === undefined ? undefined : teamPolicies.get(team);
    if (team !== undefined && parent === undefined)
      report.left(
        `${at}: its team`,
        `the team ${team} is not among the teams that were given; its budget is missing`,
      );
    const principal = (text(row.user_id) ?? (team === undefined ? name : `team:${team}`)).slice(0, 200);
    const limits = limitsOf(row, at, groups, report);
    const isLimited = Object.keys(limits).length > 0;
    const wanted = `litellm key ${name}`.slice(0, 100);
    const own = policies.has(wanted) ? `${wanted.slice(0, 90)} ${index + 1}` : wanted;
    const policy = isLimited ? own : parent;
    if (isLimited)
      policies.set(own, { name: own, ...(parent && { parent }), ...limits, counter_scope: 'key' });
    // What governs keys that are issued to it later; the others come to be with their keys.
    if (parent && !principals.has(principal)) principals.set(principal, { id: principal, policy: parent });
    if (Number(row.spend) > 0)
      report.left(`${at}: its spend`, 'what was spent there stays there; its budget begins anew');
    reportRest(row, at, report);
    report.taken(at, `key of ${principal}${policy ? `, policy ${policy}` : ''}`, 'it gets a new secret');
    return [
      {
        name,
        principal,
        policy,
        disabled: isTrue(row.blocked) || isUnclear || blockedTeams.has(team ?? ''),
        expiresAt: isUnclear ? undefined : expiresAt?.toISOString(),
        origin: text(row.token) ?? text(row.key) ?? `${principal}/${name}`,
      },
    ];
  });
  return { policies: [...policies.values()], principals: [...principals.values()], keys };
}

/** What nothing here stands for; LiteLLM writes many fields that nobody uses. */
function reportRest(row: Json, at: string, report: Report): void {
  for (const [field, value] of Object.entries(row)) {
    const isEmpty = EMPTY.includes(typeof value === 'object' ? JSON.stringify(value) : String(value));
    if (!TAKEN.includes(field) && !isEmpty) report.left(`${at}: ${field}`, 'it has no counterpart');
  }
}

/** Without a zone, it is in UTC: that is how LiteLLM's database has it. An invalid date where it is none. */
function momentOf(value: unknown): Date | undefined {
  const given = text(value);
  if (given === undefined) return undefined;
  return new Date(/(Z|[+-]\d\d:?\d\d)$/.test(given) ? given : `${given.replace(' ', 'T')}Z`);
}

function isTrue(value: unknown): boolean {
  return value === true || value === 'true' || value === 't';
}

function limitsOf(
  row: Json,
  at: string,
  groups: ReadonlyMap<string, readonly string[]>,
  report: Report,
): Json {
  const budget = budgetOf(row, at, report);
  const models = modelsOf(row.models, at, groups, report);
  const soft = Number(row.soft_budget);
  const share = Math.round((soft / Number(row.max_budget)) * 100);
  return {
    ...budget,
    ...(budget && soft > 0 && share >= 1 && share <= 100 && { thresholds: [share] }),
    ...(models.length > 0 && { allowed_models: models }),
    ...(count(numeric(row.rpm_limit)) && { requests_per_minute: numeric(row.rpm_limit) }),
    ...(count(numeric(row.tpm_limit)) && { tokens_per_minute: numeric(row.tpm_limit) }),
    ...(count(numeric(row.max_parallel_requests)) && { max_parallel: numeric(row.max_parallel_requests) }),
  };
}

const WINDOWS = [
  ['hour', 3_600],
  ['day', 86_400],
  ['week', 604_800],
  ['month', 2_592_000],
] as const;

/**
 * A budget for each of so many seconds there, for a window of the calendar here: where there is none of that length, for
 * the longest that is shorter, by as much less.
 */
function budgetOf(row: Json, at: string, report: Report): Json | undefined {
  if (row.max_budget === undefined || row.max_budget === null || row.max_budget === '') return undefined;
  const limit = microUsd(row.max_budget);
  if (limit === undefined) {
    report.left(`${at}: its max_budget`, 'it can not be read: nothing may be spent until you set it');
    return { limit_micro_usd: 0, window: 'none' };
  }
  const duration = text(row.budget_duration);
  if (duration === undefined) return { limit_micro_usd: limit, window: 'none' };
  const seconds = secondsOf(duration);
  const fitting = WINDOWS.filter(([, length]) => seconds !== undefined && length <= seconds).at(-1);
  if (seconds === undefined || fitting === undefined) {
    report.taken(
      `${at}: its budget_duration`,
      'window none',
      `${duration} is no window here: the budget is for good`,
    );
    return { limit_micro_usd: limit, window: 'none' };
  }
  const [window, length] = fitting;
  // 28 to 31 days are a month.
  const isWhole = length === seconds || (window === 'month' && seconds <= 31 * 86_400);
  if (isWhole) {
    const note = "it begins with the calendar's, in UTC, not with the key";
    report.taken(`${at}: its budget_duration`, `window ${window}`, note);
    return { limit_micro_usd: limit, window };
  }
  const less = Number((BigInt(limit) * BigInt(length)) / BigInt(seconds));
  report.taken(
    `${at}: its budget_duration`,
    `window ${window}`,
    `for ${duration} there is none; the limit is by as much less`,
  );
  return { limit_micro_usd: less, window };
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

/** Their names of groups as our ids; the patterns that they have are ours too. */
function modelsOf(
  given: unknown,
  at: string,
  groups: ReadonlyMap<string, readonly string[]>,
  report: Report,
): string[] {
  const names = Array.isArray(given) ? given.map(String) : (text(given)?.split(/[,;]/) ?? []);
  const ids = names
    .map((name) => name.trim())
    .flatMap((name): readonly string[] => {
      if (name === '' || EVERY_MODEL.includes(name)) return [];
      const known = groups.get(name);
      if (known) return known;
      if (name.includes('/')) return [name];
      report.left(`${at}: model ${name}`, 'no group of the config is called so');
      // Allowing nothing by this name must not come to mean allowing everything.
      return [`litellm/${name}`];
    });
  return [...new Set(ids)];
}

/** Down to a micro-dollar: what LiteLLM computes in floats has digits beyond that which mean nothing. */
function microUsd(dollars: unknown): number | undefined {
  const given = numeric(dollars);
  if (typeof given !== 'number' || !(given >= 0) || given > MAX_USD) return undefined;
  const [units = '', fraction = ''] = given.toFixed(7).slice(0, -1).split('.');
  return Number(units) * 1_000_000 + Number(fraction);
}

/** A table of text has no numbers. */
function numeric(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return value.trim() === '' || Number.isNaN(Number(value)) ? undefined : Number(value);
}

function text(value: unknown): string | undefined {
  return typeof value === 'string' && value.trim() !== '' && value !== 'null' ? value.trim() : undefined;
}
