import { type NewWebhookEvent, readLedgerState } from '@weighbridge/ledger';
import { type Caller, readsAll, visibleObjects } from '../../shared/caller.ts';
import { type CatalogFeedDeps, readFeedState } from '../catalogFeed/catalogFeed.service.ts';
import { type ConnectorDeps, enabledConnectors } from '../connectors/connectors.service.ts';
import { findExpiringKeys, type KeyDeps } from '../keys/keys.service.ts';
import { sumProxies } from '../proxies/proxyAdmin.service.ts';
import { currentConditions } from '../webhooks/conditions.service.ts';
import type { Attention, SummaryBudget } from './summary.schemas.ts';

export type AttentionDeps = KeyDeps & ConnectorDeps & CatalogFeedDeps;

const MAX_IDS = 10;
const BEHIND_MS = 60_000;
const GAP_MS = 60_000;
const LOW_RATIO = 0.8;
const EXPIRES_WITHIN_MS = 7 * 86_400_000;

type Finding = Omit<Attention, 'resource_ids'> & { readonly resource_ids?: readonly string[] };

/** What a caller should look at: of the service if it reads all, else of its budgets and keys. What suffers comes first. */
export async function needsAttention(
  deps: AttentionDeps,
  caller: Caller,
  budgets: readonly SummaryBudget[],
): Promise<Attention[]> {
  const found = [
    ...(readsAll(caller) ? await ofService(deps) : []),
    ...ofBudgets(budgets),
    ...(await ofKeys(deps, caller)),
  ];
  return found
    .toSorted((a, b) => a.level.localeCompare(b.level))
    .map((finding) => ({ ...finding, resource_ids: (finding.resource_ids ?? []).slice(0, MAX_IDS) }));
}

async function ofService(deps: AttentionDeps): Promise<Finding[]> {
  return [
    ...(await ofProxies(deps)),
    ...(await ofLedger(deps)),
    ...(await ofConnectors(deps)),
    ...ofConditions(await currentConditions(deps)),
    ...(await ofFeed(deps)),
  ];
}

async function ofProxies({ db }: AttentionDeps): Promise<Finding[]> {
  const { serving, silent, filling } = await sumProxies(db);
  const found: Finding[] = [];
  if (serving === 0) {
    const message = 'No proxy is connected: no request is served.';
    found.push({ kind: 'no_proxy', level: 'act', count: 1, message });
  }
  if (silent > 0) {
    const message = `${some(silent, 'proxy', 'proxies')} may serve and said nothing for ten seconds.`;
    found.push({ kind: 'proxies_silent', level: 'look', count: silent, message });
  }
  if (filling.length > 0) {
    const message = `The spool of ${filling.join(', ')} is more than 80 % full; a full one refuses requests.`;
    found.push({ kind: 'spools_filling', level: 'act', count: filling.length, message });
  }
  return found;
}

async function ofLedger({ db }: AttentionDeps): Promise<Finding[]> {
  const { lostProducers, lost, asOfAgeMs, gaps, longestGapMs, heldUsage } = await readLedgerState(db);
  const found: Finding[] = [];
  if (lostProducers > 0) {
    const message = `${some(lostProducers, 'proxy', 'proxies')} went silent, and usage may be missing: ${lost.map(({ name }) => name).join(', ')}.`;
    found.push({ kind: 'proxies_lost', level: 'act', count: lostProducers, message });
  }
  if (heldUsage > 0) {
    const message = `The ledger refused usage: ${some(heldUsage, 'entry waits', 'entries wait')} in quarantine.`;
    found.push({ kind: 'quarantine', level: 'act', count: heldUsage, message });
  }
  if (gaps > 0 && longestGapMs > GAP_MS) {
    const message = `Usage is missing in ${some(gaps, 'place', 'places')} for ${seconds(longestGapMs)}.`;
    found.push({ kind: 'ledger_gap', level: 'act', count: gaps, message });
  }
  if (asOfAgeMs > BEHIND_MS) {
    const message = `The ledger is ${seconds(asOfAgeMs)} behind.`;
    found.push({ kind: 'ledger_behind', level: 'look', count: 1, message });
  }
  return found;
}

async function ofConnectors(deps: AttentionDeps): Promise<Finding[]> {
  const unusable = (await enabledConnectors(deps)).flatMap(({ row, unusable: reason }) =>
    reason === undefined ? [] : [{ row, reason }],
  );
  return unusable.slice(0, MAX_IDS).map(({ row, reason }) => ({
    kind: 'connector_unusable',
    level: 'act',
    count: 1,
    message: `The connector ${row.name} can't be used: ${reason}`,
    resource_ids: [row.id],
  }));
}

/** One finding for each connector that is down, one for all prices that are missing, one for each origin of old prices. */
function ofConditions(conditions: readonly NewWebhookEvent[]): Finding[] {
  const of = (type: NewWebhookEvent['type']) =>
    conditions.filter((one) => one.type === type).map(({ data }) => data as Record<string, unknown>);
  const text = (value: unknown) => String(value ?? '');
  const missing = [...new Set(of('price.missing').map(({ model }) => text(model)))];
  return [
    ...of('connector.down')
      .slice(0, MAX_IDS)
      .map(
        ({ connector_id, provider, reason }): Finding => ({
          kind: 'connector_down',
          level: 'act',
          count: 1,
          message: `A connector of ${text(provider)} is down: ${text(reason)}.`,
          resource_ids: [text(connector_id)],
        }),
      ),
    ...(missing.length === 0
      ? []
      : [
          {
            kind: 'price_missing',
            level: 'act',
            count: missing.length,
            message: `${some(missing.length, 'model', 'models')} that a connector names can't be used without a price: ${listed(missing.slice(0, 3), missing.length)}.`,
            resource_ids: missing,
          } as const,
        ]),
    ...of('price.stale').map(
      ({ models, origin, age_days, model }): Finding => ({
        kind: 'prices_old',
        level: 'look',
        count: Number(models),
        message: `Not confirmed for ${text(age_days)} days: ${some(Number(models), 'price', 'prices')} (${text(origin)}).`,
        resource_ids: [text(model)],
      }),
    ),
  ];
}

async function ofFeed(deps: AttentionDeps): Promise<Finding[]> {
  const { error, held_changes: held } = await readFeedState(deps);
  const found: Finding[] = [];
  if (error !== null) {
    const message = `The feed of prices fails: ${error}`;
    found.push({ kind: 'feed_failing', level: 'look', count: 1, message });
  }
  if (held > 0) {
    const message = `${some(held, 'change of prices waits', 'changes of prices wait')} for a decision.`;
    found.push({ kind: 'feed_changes_held', level: 'look', count: held, message });
  }
  return found;
}

function ofBudgets(budgets: readonly SummaryBudget[]): Finding[] {
  const low = budgets.filter(
    ({ limit_micro_usd: limit, spent_micro_usd: spent }) => limit !== null && spent >= limit * LOW_RATIO,
  );
  if (low.length === 0) return [];
  const spent = low.filter(
    ({ limit_micro_usd, spent_micro_usd }) => spent_micro_usd >= (limit_micro_usd ?? 0),
  );
  const message =
    spent.length > 0
      ? `${some(spent.length, 'budget is', 'budgets are')} spent: ${names(spent)}.`
      : `${some(low.length, 'budget is', 'budgets are')} more than 80 % spent: ${names(low)}.`;
  const resource_ids = [...new Set(low.map(({ policy_id }) => policy_id))];
  const level = spent.length > 0 ? 'act' : 'look';
  return [{ kind: 'budget_low', level, count: low.length, message, resource_ids }];
}

function names(budgets: readonly SummaryBudget[]): string {
  const shown = budgets.slice(0, 3).map(({ policy_name, principal_id, key_name, key_id, team_name }) => {
    const owner = principal_id ?? key_name ?? key_id ?? team_name;
    return owner === null ? policy_name : `${owner} (${policy_name})`;
  });
  return listed(shown, budgets.length);
}

/** The first of many names, and how many more there are. */
function listed(shown: readonly string[], count: number): string {
  return shown.join(', ') + (count > shown.length ? ` and ${count - shown.length} more` : '');
}

async function ofKeys(deps: AttentionDeps, caller: Caller): Promise<Finding[]> {
  const now = deps.now();
  const within = new Date(now.getTime() + EXPIRES_WITHIN_MS);
  const visible = visibleObjects(caller, undefined, 'the keys');
  const ids = await findExpiringKeys(deps.db, visible, { after: now, until: within });
  if (ids.count === 0) return [];
  const message = `${some(ids.count, 'key expires', 'keys expire')} within a week.`;
  return [{ kind: 'keys_expiring', level: 'look', message, count: ids.count, resource_ids: ids.first }];
}

function some(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

function seconds(ms: number): string {
  return `${Math.round(ms / 1_000)} s`;
}
