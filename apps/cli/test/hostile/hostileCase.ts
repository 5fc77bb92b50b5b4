import { expect } from 'vitest';
import type { Scene, Tenant } from './scene.ts';

/** An attack, and the rule that it must meet: the row of the list in docs/budgets.md that it shows. */
export interface HostileCase {
  readonly row: string;
  readonly title: string;
  run(scene: Scene): Promise<void>;
}

export const chat = (model: string, fields: object = {}) => ({
  model,
  messages: [{ role: 'user', content: 'weigh' }],
  ...fields,
});
export const message = (fields: object = {}) => ({
  ...chat('anthropic/plain'),
  max_tokens: 1_000,
  ...fields,
});
export const responses = (fields: object = {}) => ({ model: 'openai/plain', input: 'weigh', ...fields });

/** The ledger has to the micro-USD what the vendor charges. */
export async function expectExact(tenant: Tenant, requests = 1): Promise<void> {
  const charged = await tenant.charged(requests);
  expect(tenant.billed()).toBeGreaterThan(0);
  expect(charged).toBe(tenant.billed());
}

/** The ledger has at least what the vendor charges. */
export async function expectCovered(tenant: Tenant, requests = 1): Promise<void> {
  const charged = await tenant.charged(requests);
  expect(tenant.billed()).toBeGreaterThan(0);
  expect(charged).toBeGreaterThanOrEqual(tenant.billed());
}

export const hard = (limit: number) => ({ limit_micro_usd: limit, budget_mode: 'hard' });
/** For cases that are not about the limit: a thousand dollars. */
export const PLENTY = 1_000_000_000;
