import { definedBy, isOfAttribution } from '@weighbridge/budget';
import { microFromNano } from '@weighbridge/domain';
import type { RefusedRequestRow, RefusingCounter } from '@weighbridge/ledger';
import type { Refusal } from './requests.schemas.ts';

type ShownCounter = NonNullable<Refusal['counter']>;

/** Whether a viewer may know a policy beside the governing ones. */
export interface PolicyViewer {
  seesPolicy(id: string): boolean;
}

/** Why a request was refused. What a parent policy has left includes other principals' spend: few see it. */
export function presentRefusal(
  row: RefusedRequestRow,
  policyNames: ReadonlyMap<string, string>,
  viewer: PolicyViewer,
): Refusal {
  const { counter, counts } = row;
  const byCode = Object.entries(counts ?? { [row.code]: 1 }).sort(([, a], [, b]) => b - a);
  const count = byCode.reduce((sum, [, more]) => sum + more, 0);
  const policyId = shownPolicyOf(row, viewer);
  return {
    code: byCode[0]?.[0] ?? row.code,
    http_status: row.http_status,
    message: counts ? `${count} more requests of this key were refused in this minute.` : row.message,
    endpoint: row.endpoint,
    policy_id: policyId ?? null,
    policy_name: (policyId && policyNames.get(policyId)) ?? null,
    counter: counter && presentCounter(counter, policyId !== undefined && seesFigures(counter, viewer)),
    count,
    by_code: Object.fromEntries(byCode),
  };
}

/** The refusing policy, as far as the viewer may know it. */
export function shownPolicyOf(
  { counter, policy_id }: RefusedRequestRow,
  viewer: PolicyViewer,
): string | undefined {
  const refusing = counter && definedBy({ policyId: counter.policy_id }).policyId;
  const isShown = refusing !== null && (refusing === policy_id || viewer.seesPolicy(refusing));
  return isShown ? refusing : undefined;
}

/** What a value spends that any key may name includes the spend of other principals' customers. */
function seesFigures({ policy_id, subject }: RefusingCounter, viewer: PolicyViewer): boolean {
  const { policyId, limitId } = definedBy({ policyId: policy_id });
  return limitId === undefined || !isOfAttribution(subject) || viewer.seesPolicy(policyId);
}

function presentCounter(counter: RefusingCounter, isShown: boolean): ShownCounter {
  const isBudget = counter.limits === 'budget';
  const figure = (text: string | null) => (isShown && text !== null ? BigInt(text) : undefined);
  const amount = (text: string | null) => {
    const nano = isBudget ? figure(text) : undefined;
    return nano === undefined ? null : Math.max(0, microFromNano(nano));
  };
  const limit = isBudget ? undefined : figure(counter.limit);
  const spent = isBudget ? undefined : figure(counter.spent);
  const { limitId } = definedBy({ policyId: counter.policy_id });
  const colon = limitId === undefined ? -1 : counter.subject.indexOf(':');
  return {
    limit_id: limitId ?? null,
    value: colon < 0 ? null : counter.subject.slice(colon + 1),
    limits: counter.limits,
    limit: limit === undefined ? null : Number(limit),
    spent: spent === undefined ? null : Number(spent),
    limit_micro_usd: amount(counter.limit),
    spent_micro_usd: amount(counter.spent),
    estimate_micro_usd: amount(counter.wanted),
    window_start: counter.window_start,
    reset: counter.resets_at,
  };
}
