import type { components } from '@weighbridge/client';
import { usePolicies } from '../api/choices.ts';
import { readsAll, useWhoami } from '../app/session.ts';
import { Name } from '../ui/bits.tsx';
import { money } from '../ui/text.ts';

type Policy = components['schemas']['Policy'];

/** Such as `$25.50 a month`. */
export function budgetText({
  limit_micro_usd: micro,
  window,
}: Pick<Policy, 'limit_micro_usd' | 'window'>): string {
  if (micro === null) return 'no limit';
  return `${money(micro)} ${window === 'none' ? 'in all' : `a ${window}`}`;
}

/**
 * The name of a policy, by its id; the id itself if there is no such policy among the first 500. Whoever may not read policies knows
 * the name of their own.
 */
export function PolicyName({
  id,
  none = '–',
  budget = false,
}: {
  id: string | null;
  none?: string;
  budget?: boolean;
}) {
  const whoami = useWhoami();
  const policy = usePolicies({ enabled: readsAll(whoami) })?.find((one) => one.id === id);
  if (id === null) return none;
  const name = policy?.name ?? (id === whoami.policy_id ? whoami.policy_name : null) ?? id;
  return (
    <>
      <Name text={name} />
      {budget && policy && <small>{budgetText(policy)}</small>}
    </>
  );
}
