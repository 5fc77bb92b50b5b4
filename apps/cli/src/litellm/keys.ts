import type { Json } from '../apply/desiredState.ts';
import { budgetOf, furtherLimitsOf, numeric } from './budgets.ts';
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
  ...['model_max_budget', 'budget_limits'],
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

/** `above` is the policy above all others. */
export function mapKeys(
  rows: readonly Json[],
  teams: readonly Json[],
  groups: ReadonlyMap<string, readonly string[]>,
  { now, above }: { readonly now: Date; readonly above: string | undefined },
  report: Report,
): KeySections {
  const policies = new Map<string, Json>();
  const principals = new Map<string, Json>();
  const teamRows = readTeams(teams, report);
  const teamPolicies = new Map(teamRows.map(({ id, policy }) => [id, policy]));
  const blockedTeams = new Set(teamRows.filter(({ row }) => isTrue(row.blocked)).map(({ id }) => id));
  for (const { row, id, policy: name } of teamRows) {
    // In LiteLLM, all keys of a team share one budget.
    policies.set(name, {
      name,
      ...(above && { parent: above }),
      ...limitsOf(row, `team ${id}`, 'policy', groups, report),
      counter_scope: 'policy',
    });
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
    const teamPolicy = team === undefined ? undefined : teamPolicies.get(team);
    const parent = teamPolicy ?? above;
    if (team !== undefined && teamPolicy === undefined)
      report.addSkipped(`${at}: team`, `the team ${team} is not in the file of teams; its budget is missing`);
    const principal = (text(row.user_id) ?? (team === undefined ? name : `team:${team}`)).slice(0, 200);
    holders.push({ principal, team });
    const limits = limitsOf(row, at, 'key', groups, report);
    const isLimited = Object.keys(limits).length > 0;
    const wanted = `litellm key ${name}`.slice(0, 100);
    const own = policies.has(wanted) ? `${wanted.slice(0, 90)} ${index + 1}` : wanted;
    const policy = isLimited ? own : parent;
    if (isLimited)
      policies.set(own, { name: own, ...(parent && { parent }), ...limits, counter_scope: 'key' });
    // This policy also governs keys issued to the principal later. Other principals are created with their keys.
    if (teamPolicy && !principals.has(principal))
      principals.set(principal, { id: principal, policy: teamPolicy });
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

/** What a policy has of the limits of a key or a team. Empty: nothing. */
function limitsOf(
  row: Json,
  at: string,
  counter_scope: 'key' | 'policy',
  groups: ReadonlyMap<string, readonly string[]>,
  report: Report,
): Json {
  const budget = budgetOf(row, at, report);
  const further = furtherLimitsOf(row, at, counter_scope, groups, report);
  const models = modelsOf(row.models, at, groups, report);
  const soft = Number(row.soft_budget);
  const share = Math.round((soft / Number(row.max_budget)) * 100);
  return {
    ...budget,
    ...(budget && soft > 0 && share >= 1 && share <= 100 && { thresholds: [share] }),
    ...(further.length > 0 && { limits: further }),
    ...(models.length > 0 && { allowed_models: models }),
    ...(count(numeric(row.rpm_limit)) && { requests_per_minute: numeric(row.rpm_limit) }),
    ...(count(numeric(row.tpm_limit)) && { tokens_per_minute: numeric(row.tpm_limit) }),
    ...(count(numeric(row.max_parallel_requests)) && { max_parallel: numeric(row.max_parallel_requests) }),
  };
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
