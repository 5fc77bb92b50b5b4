import type { PolicyRow } from './policies.repository.ts';
import { MAX_REPLACEMENTS } from './policies.ts';

/** Policies by their ids, with those that they name. */
export type Policies = ReadonlyMap<string, PolicyRow>;

/** A key's governing policy, and the policies of its principal's team and of each team above it, nearest first. */
export interface ChainHeads {
  readonly governing: PolicyRow;
  readonly teamPolicyIds: readonly string[];
}

/**
 * The policies that count for a key, each once, nearest first: the one that governs it with its parents, then those of its teams with
 * theirs. If it governs in place of exhausted ones, their parents still count, and they themselves only as someone's parent.
 */
export function policiesInForce(
  policies: Policies,
  { governing, teamPolicyIds }: ChainHeads,
  replacedIds: readonly string[] = [],
): PolicyRow[] {
  const heads = [
    governing.id,
    ...replacedIds.map((id) => policies.get(id)?.parent_policy_id ?? null),
    ...teamPolicyIds.filter((id) => !replacedIds.includes(id)),
  ];
  return [...new Set(heads.flatMap((id) => lineOf(policies, id)))];
}

/** What takes the place of a policy whose budget is used up, and what takes the place of that, with the profiles they route by. */
export function replacementsOf(
  policies: Policies,
  { governing, teamPolicyIds }: ChainHeads,
): { readonly profileId: string; readonly policies: PolicyRow[] }[] {
  const replacements = [];
  const replacedIds: string[] = [];
  let current = governing;
  while (current.exhausted_policy_id !== null && current.exhausted_profile_id !== null) {
    if (replacements.length === MAX_REPLACEMENTS) break;
    replacedIds.push(current.id);
    const { exhausted_policy_id: id, exhausted_profile_id: profileId } = current;
    const next = policies.get(id);
    if (!next) throw new Error('the policy that replaces another is not there');
    const inForce = policiesInForce(policies, { governing: next, teamPolicyIds }, replacedIds);
    replacements.push({ profileId, policies: inForce });
    current = next;
  }
  return replacements;
}

/** A policy and its parents, nearest first. Parents form no circle (`assertParent`). */
function lineOf(policies: Policies, id: string | null): PolicyRow[] {
  const line: PolicyRow[] = [];
  for (let next = id; next !== null; ) {
    const policy = policies.get(next);
    if (!policy) throw new Error('a policy that another names is not there');
    line.push(policy);
    next = policy.parent_policy_id;
  }
  return line;
}
