import { COMPANY_PERCENT_USED, TEAMS } from './company.ts';
import type { CompanyLimits } from './createCompany.ts';
import { type Month, monthStart } from './month.ts';
import type { ListPrice } from './prices.ts';
import { costOfAttempt } from './writeMonth.ts';

const NANO_PER_CENT = 10_000_000n;
const MICRO_PER_CENT = 10_000n;

/** Limits at which the budgets are as full now as company.ts says. */
export function limitsOf(month: Month, prices: ReadonlyMap<string, ListPrice>, now: Date): CompanyLimits {
  const start = monthStart(now);
  const spent = new Map<string, bigint>();
  const most = new Map<string, bigint>();
  for (const attempt of month.attempts) {
    const cost = costOfAttempt(attempt, prices);
    const key = `${attempt.team.name} ${attempt.at < start ? 'before' : 'now'} ${attempt.person.id}`;
    most.set(key, (most.get(key) ?? 0n) + cost);
    if (attempt.at >= start) spent.set(attempt.team.name, (spent.get(attempt.team.name) ?? 0n) + cost);
  }
  const byTeam = new Map<string, { pool: number; each: number }>();
  for (const { name, percentUsed } of TEAMS) {
    const dearest = [...most].flatMap(([key, cost]) => (key.startsWith(`${name} `) ? [cost] : []));
    byTeam.set(name, {
      pool: limitFor(spent.get(name) ?? 0n, percentUsed),
      each: limitFor(largest(dearest), 70),
    });
  }
  const all = [...spent.values()].reduce((sum, cost) => sum + cost, 0n);
  return { company: limitFor(all, COMPANY_PERCENT_USED), byTeam };
}

/** In micro-USD: whole cents, never below what is spent. */
function limitFor(spentNano: bigint, percentUsed: number): number {
  const exact = (spentNano * 100n) / BigInt(percentUsed);
  return Number((exact / NANO_PER_CENT + 1n) * MICRO_PER_CENT);
}

function largest(costs: readonly bigint[]): bigint {
  return costs.toSorted((one, other) => (one < other ? 1 : -1))[0] ?? 0n;
}
