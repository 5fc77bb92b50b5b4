import type { Json } from '../apply/desiredState.ts';
import { count } from './deployment.ts';
import type { Report } from './report.ts';
import { mapTeams, PEOPLE_FIELDS, type TeamRow } from './teams.ts';
import { isTrue, text } from './values.ts';

/** A key to issue in place of one of LiteLLM's, whose secret only its holder has. */
export interface KeyToIssue {
  readonly name: string;
  readonly principal: string;
  /** The name of its policy; undefined: the principal's policy governs it. */
  readonly policy: string | undefined;
  readonly disabled: boolean;
  readonly expiresAt: string | undefined;
  /** Identifies the LiteLLM key: issued again within 24 hours, it yields the same key. */
  readonly origin: string;
}

export interface KeySections {
  readonly policies: readonly Json[];
  readonly teams: readonly Json[];
  readonly principals: readonly Json[];
  readonly keys: readonly KeyToIssue[];
}

const KNOWN_FIELDS = [
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
  ...PEOPLE_FIELDS,
];
/** Values that LiteLLM writes into fields that are not used. */
const EMPTY_VALUES = ['', '{}', '[]', 'null', 'false', '0', 'undefined'];
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
  const teamRows = readTeams(teams, report);
  const teamPolicies = new Map(teamRows.map(({ id, policy }) => [id, policy]));
  const blockedTeams = new Set(teamRows.filter(({ row }) => isTrue(row.blocked)).map(({ id }) => id));
  for (const { row, id, policy: name } of teamRows) {
    // In LiteLLM, all keys of a team share one budget.
    policies.set(name, { name, ...limitsOf(row, `team ${id}`, groups, report), counter_scope: 'policy' });
    reportUnknownFields(row, `team ${id}`, report);
    report.addConverted(`team ${id}`, `policy ${name}`);
  }
  const holders: { principal: string; team: string | undefined }[] = [];
  const keys = rows.flatMap((row, index): KeyToIssue[] => {
    const name = (text(row.key_alias) ?? text(row.key_name) ?? `key ${index + 1}`).slice(0, 100);
    const at = `key ${name}`;
    const expiresAt = parseExpiry(row.expires);
    if (expiresAt && expiresAt <= now) {
      report.addSkipped(at, 'it has expired');
      return [];
    }
    const isUnclear = expiresAt !== undefined && Number.isNaN(expiresAt.getTime());
    if (isUnclear) report.addSkipped(`${at}: expiry`, "it can't be read, so the key is issued disabled");
    const team = text(row.team_id);
    const parent = team === undefined ? undefined : teamPolicies.get(team);
    if (team !== undefined && parent === undefined)
      report.addSkipped(`${at}: team`, `the team ${team} is not in the file of teams; its budget is missing`);
    const principal = (text(row.user_id) ?? (team === undefined ? name : `team:${team}`)).slice(0, 200);
    holders.push({ principal, team });
    const limits = limitsOf(row, at, groups, report);
    const isLimited = Object.keys(limits).length > 0;
    const wanted = `litellm key ${name}`.slice(0, 100);
    const own = policies.has(wanted) ? `${wanted.slice(0, 90)} ${index + 1}` : wanted;
    const policy = isLimited ? own : parent;
    if (isLimited)
      policies.set(own, { name: own, ...(parent && { parent }), ...limits, counter_scope: 'key' });
    // This policy also governs keys issued to the principal later. Other principals are created with their keys.
    if (parent && !principals.has(principal)) principals.set(principal, { id: principal, policy: parent });
    if (Number(row.spend) > 0)
      report.addSkipped(`${at}: spend`, 'past spend is not converted; the budget starts again');
    reportUnknownFields(row, at, report);
    report.addConverted(at, `key of ${principal}${policy ? `, policy ${policy}` : ''}`, 'with a new secret');
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
  const converted = mapTeams(teamRows, holders, report);
  // The policy of its team governs what a member gets later.
  const placed = new Set(converted.flatMap(({ leads = [], members = [] }) => [leads, members].flat()));
  return {
    policies: [...policies.values()],
    teams: converted,
    principals: [...principals.values()].filter(({ id }) => !placed.has(id)),
    keys,
  };
}

const TEAM_POLICY = 'litellm team ';

/** The teams with the names that they get: their aliases, where no other team has them. */
function readTeams(rows: readonly Json[], report: Report): TeamRow[] {
  const names = new Set<string>();
  return rows.flatMap((row, index) => {
    const id = text(row.team_id);
    if (id === undefined) {
      report.addSkipped(`teams[${index}]`, 'team_id is missing');
      return [];
    }
    const wanted = (text(row.team_alias) ?? id).slice(0, 100 - TEAM_POLICY.length);
    const name = names.has(wanted) ? `${wanted.slice(0, 40)} ${id.slice(0, 40)}` : wanted;
    names.add(name);
    return [{ row, id, name, policy: `${TEAM_POLICY}${name}` }];
  });
}

/** Reports the fields without a counterpart that are not empty. */
function reportUnknownFields(row: Json, at: string, report: Report): void {
  for (const [field, value] of Object.entries(row)) {
    const isEmpty = EMPTY_VALUES.includes(typeof value === 'object' ? JSON.stringify(value) : String(value));
    if (!KNOWN_FIELDS.includes(field) && !isEmpty) report.addSkipped(`${at}: ${field}`, 'no counterpart');
  }
}

/** Without a zone it is in UTC, as in LiteLLM's database. Returns an invalid date if it can't be read. */
function parseExpiry(value: unknown): Date | undefined {
  const given = text(value);
  if (given === undefined) return undefined;
  return new Date(/(Z|[+-]\d\d:?\d\d)$/.test(given) ? given : `${given.replace(' ', 'T')}Z`);
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
 * LiteLLM's budget has a duration, ours a calendar window. If no window has that length, it becomes the longest shorter
 * window, with a proportionally lower limit.
 */
function budgetOf(row: Json, at: string, report: Report): Json | undefined {
  if (row.max_budget === undefined || row.max_budget === null || row.max_budget === '') return undefined;
  const limit = microUsd(row.max_budget);
  if (limit === undefined) {
    report.addSkipped(`${at}: max_budget`, "it can't be read, so the limit is 0 until you set it");
    return { limit_micro_usd: 0, window: 'none' };
  }
  const duration = text(row.budget_duration);
  if (duration === undefined) return { limit_micro_usd: limit, window: 'none' };
  const seconds = secondsOf(duration);
  const fitting = WINDOWS.filter(([, length]) => seconds !== undefined && length <= seconds).at(-1);
  if (seconds === undefined || fitting === undefined) {
    report.addConverted(
      `${at}: budget_duration`,
      'window none',
      `there is no window of ${duration}; the budget never starts again`,
    );
    return { limit_micro_usd: limit, window: 'none' };
  }
  const [window, length] = fitting;
  // A month has 28 to 31 days.
  const isWhole = length === seconds || (window === 'month' && seconds <= 31 * 86_400);
  if (isWhole) {
    const note = 'it follows the calendar in UTC, not the creation of the key';
    report.addConverted(`${at}: budget_duration`, `window ${window}`, note);
    return { limit_micro_usd: limit, window };
  }
  const less = Number((BigInt(limit) * BigInt(length)) / BigInt(seconds));
  report.addConverted(
    `${at}: budget_duration`,
    `window ${window}`,
    `there is no window of ${duration}; the limit is proportionally lower`,
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

/** The ids behind their group names; patterns stay as they are. */
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
      report.addSkipped(`${at}: model ${name}`, 'the config has no such group');
      // An unknown name must not become an empty list, which would allow every model.
      return [`litellm/${name}`];
    });
  return [...new Set(ids)];
}

/** Rounded down to a micro-dollar: LiteLLM computes in floats, and further digits have no meaning. */
function microUsd(dollars: unknown): number | undefined {
  const given = numeric(dollars);
  if (typeof given !== 'number' || !(given >= 0) || given > MAX_USD) return undefined;
  const [units = '', fraction = ''] = given.toFixed(7).slice(0, -1).split('.');
  return Number(units) * 1_000_000 + Number(fraction);
}

/** The cells of a CSV are text, also those of numbers. */
function numeric(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  return value.trim() === '' || Number.isNaN(Number(value)) ? undefined : Number(value);
}
