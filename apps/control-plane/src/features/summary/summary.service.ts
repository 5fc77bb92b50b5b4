import { microFromNano, windowAt } from '@weighbridge/domain';
import {
  ledgerAsOf,
  type Percentiles,
  readFullestCounters,
  readRecentAttempts,
  readSpendCompleteness,
  readSpendRows,
  type SpendQuery,
  type SpendRow,
} from '@weighbridge/ledger';
import { type Caller, ledTeamsOf, readsAll, readsAllSpend } from '../../shared/caller.ts';
import { readResourceNames } from '../../shared/resourceNames.ts';
import { policyOfCaller } from '../keys/effectiveKey.ts';
import type { Overhead, ProxyOverheads } from '../proxies/proxyOverheads.ts';
import { ledgerFilter, withinTimeout } from '../spend/ledgerQuery.ts';
import { countersOfTeams } from '../teams/teamReport.service.ts';
import { usageOfCaller } from '../usage/usage.service.ts';
import { type AttentionDeps, needsAttention } from './attention.service.ts';
import type { Summary, SummaryBudget, SummaryDay, SummaryRecent, SummarySums } from './summary.schemas.ts';
import { addSums, NO_SUMS, ownerOf } from './summary.ts';

export interface SummaryDeps extends AttentionDeps {
  readonly proxyOverheads: Pick<ProxyOverheads, 'read'>;
}

const DAY_MS = 86_400_000;
const MAX_BUDGETS = 10;

/** What a caller's overview shows, of everything that it may see. */
export async function summary(deps: SummaryDeps, caller: Caller): Promise<Summary> {
  const { db } = deps;
  const now = deps.now();
  const month = windowAt('month', 'UTC', now).start;
  const today = windowAt('day', 'UTC', now).start;
  const filter = ledgerFilter(caller, {}, { from: month, to: new Date(now.getTime() + 1) });
  const days = daysUntil(month, today);
  const query: SpendQuery = { filter, groupBy: [], bucketEdges: days };
  const asOf = await ledgerAsOf(db);
  // What proxies settle at this moment is always still to come.
  const { isComplete } = await readSpendCompleteness(db, { ...query, filter: { ...filter, to: asOf } });
  const rows = await withinTimeout(readSpendRows(db, query, { after: undefined, limit: days.length }));
  const budgets = await budgetsOf(deps, caller, now);
  const recent = await readRecentAttempts(db, { ...filter, from: new Date(now.getTime() - DAY_MS) });
  return {
    reach: reachOf(caller),
    today: sumsFrom(today, rows),
    month: sumsFrom(month, rows),
    days: days.map((day) => sumsOf(day, rows)),
    budgets,
    recent: presentRecent(recent),
    overhead: readsAll(caller) ? presentOverhead(deps.proxyOverheads.read()) : null,
    attention: await needsAttention(deps, caller, budgets),
    bucket_as_of: asOf.toISOString(),
    complete: isComplete,
  };
}

function reachOf(caller: Caller): Summary['reach'] {
  if (readsAllSpend(caller)) return 'all';
  return ledTeamsOf(caller).length > 0 ? 'teams' : 'own';
}

/** The days of UTC from the first to the last. */
function daysUntil(first: Date, last: Date): Date[] {
  const count = Math.round((last.getTime() - first.getTime()) / DAY_MS) + 1;
  return Array.from({ length: count }, (_, day) => new Date(first.getTime() + day * DAY_MS));
}

/** The sum of the rows whose bucket begins at a time or later. */
function sumsFrom(from: Date, rows: readonly SpendRow[]): SummarySums {
  const { cost, ...counts } = rows
    .filter(({ bucketStart }) => bucketStart !== null && bucketStart >= from)
    .reduce(addSums, NO_SUMS);
  return { from: from.toISOString(), cost_micro_usd: microFromNano(cost), ...counts };
}

/** What the rows of a day say; zeros if there is none. */
function sumsOf(day: Date, rows: readonly SpendRow[]): SummaryDay {
  const { cost_micro_usd, requests } = sumsFrom(
    day,
    rows.filter(({ bucketStart }) => bucketStart?.getTime() === day.getTime()),
  );
  return { from: day.toISOString(), cost_micro_usd, requests };
}

function presentRecent(recent: Awaited<ReturnType<typeof readRecentAttempts>>): SummaryRecent {
  return {
    since: recent.since?.toISOString() ?? null,
    answers: recent.answers,
    cache_hits: recent.cacheHits,
    first_token_ms: inMs(recent.firstByteUs),
    duration_ms: inMs(recent.durationUs),
  };
}

function inMs(percentiles: Percentiles | null) {
  return percentiles && { p50: round(percentiles.p50), p95: round(percentiles.p95) };
}

function presentOverhead(overhead: Overhead | null): Summary['overhead'] {
  if (!overhead) return null;
  const { requests, proxies, windowMs, p50Us, p95Us } = overhead;
  return { requests, proxies, window_ms: windowMs, p50_ms: round(p50Us), p95_ms: round(p95Us) };
}

/** To a hundredth of a millisecond. */
function round(us: number): number {
  return Math.round(us / 10) / 100;
}

async function budgetsOf(deps: SummaryDeps, caller: Caller, now: Date): Promise<SummaryBudget[]> {
  if (readsAll(caller)) return await fullestBudgets(deps, now);
  const teams = await countersOfTeams(deps, ledTeamsOf(caller), MAX_BUDGETS);
  const ofTeams = teams.map(({ team, counter: { policy_id, policy_name, counter_scope, ...counter } }) => ({
    policy_id,
    policy_name,
    counter_scope,
    principal_id: null,
    key_id: null,
    key_name: null,
    team_id: team.id,
    team_name: team.name,
    limit_micro_usd: counter.limit_micro_usd,
    spent_micro_usd: counter.spent_micro_usd,
    window_start: counter.window_start,
    reset: counter.reset,
  }));
  return [...(await ownBudget(deps, caller)), ...ofTeams];
}

async function fullestBudgets({ db }: SummaryDeps, now: Date): Promise<SummaryBudget[]> {
  const counters = await readFullestCounters(db, now, MAX_BUDGETS);
  const keyIds = counters.flatMap(({ subject }) => ownerOf(subject).key_id ?? []);
  const keyNames = await readResourceNames(db, 'key', keyIds);
  return counters.map(({ windowKind, timezone, ...counter }) => {
    const window = windowAt(windowKind, timezone, now);
    const owner = ownerOf(counter.subject);
    return {
      policy_id: counter.policyId,
      policy_name: counter.policyName,
      counter_scope: counter.counterScope,
      ...owner,
      key_name: (owner.key_id && keyNames.get(owner.key_id)) ?? null,
      team_id: null,
      team_name: null,
      limit_micro_usd: microFromNano(counter.limit),
      spent_micro_usd: microFromNano(counter.spent),
      window_start: (window.end === null ? counter.countedSince : window.start).toISOString(),
      reset: window.end?.toISOString() ?? null,
    };
  });
}

/** The counter of the policy that governs the caller; none for a token that no policy governs. */
async function ownBudget(deps: SummaryDeps, caller: Caller): Promise<SummaryBudget[]> {
  const policy = await policyOfCaller(deps.db, caller);
  if (!policy) return [];
  const usage = await usageOfCaller(deps, caller);
  return [
    {
      policy_id: usage.policy_id,
      policy_name: policy.name,
      counter_scope: usage.counter_scope,
      principal_id: usage.pooled ? null : caller.principalId,
      key_id: null,
      key_name: null,
      team_id: null,
      team_name: null,
      limit_micro_usd: usage.limit_micro_usd,
      spent_micro_usd: usage.bucket_spent_micro_usd,
      window_start: usage.window_start,
      reset: usage.reset,
    },
  ];
}
