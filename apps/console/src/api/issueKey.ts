import type { components } from '@weighbridge/client';
import { client } from './client.ts';

type NewKey = components['schemas']['NewKey'];
type Window = components['schemas']['Policy']['window'];

/** The most that one key may spend in each window. */
export interface KeyBudget {
  readonly limit_micro_usd: number;
  readonly window: Window;
}

/**
 * Issues a key, and returns its secret. A budget is a policy that governs this key alone, below the key's own `policy_id`, so that
 * both limits hold. Only an operator may give one.
 */
export async function issueKey(body: NewKey, budget?: KeyBudget): Promise<string> {
  if (!budget) return await secretOfNewKey(body);
  const { data: policy } = await client.POST('/api/v1/policies', {
    body: {
      ...budget,
      // Two keys may have the same name.
      name: `${body.name} ${new Date().toISOString()}`,
      counter_scope: 'policy',
      ...(body.policy_id && { parent_policy_id: body.policy_id }),
    },
  });
  const id = policy?.id ?? '';
  try {
    return await secretOfNewKey({ ...body, policy_id: id });
  } catch (error) {
    // A policy that governs a key can't be deleted: it stays if the key was issued after all.
    const params = { path: { policy_id: id } };
    await client.DELETE('/api/v1/policies/{policy_id}', { params }).catch(() => undefined);
    throw error;
  }
}

async function secretOfNewKey(body: NewKey): Promise<string> {
  const { data } = await client.POST('/api/v1/keys', { body });
  return data?.key ?? '';
}
