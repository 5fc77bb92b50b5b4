import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { Cluster } from './cluster.ts';

const LIMIT_MICRO_USD = 12_000;
/** Before that, nothing may be contended: the leases of both proxies leave enough. */
const CONTENDED_FROM = 0.8;
const PAUSE_MS = 100;

/** A key with a hard budget, which runs out on the way: then requests are refused, and never more is spent. */
export interface SmallBudget {
  readonly failures: readonly string[];
  start(): void;
  stop(): Promise<void>;
  inWords(): string;
  expectKept(): Promise<void>;
}

export interface SmallBudgetOptions {
  /** Says of an error response that it is a known one of an earlier release. */
  readonly isKnown?: (text: string) => boolean;
}

export async function createSmallBudget(
  cluster: Cluster,
  { isKnown = () => false }: SmallBudgetOptions = {},
): Promise<SmallBudget> {
  const name = 'small-budget';
  const policy = await manage(cluster, 'POST', '/api/v1/policies', {
    body: {
      name,
      limit_micro_usd: LIMIT_MICRO_USD,
      window: 'none',
      counter_scope: 'key',
      budget_mode: 'hard',
    },
  });
  expect(policy.status).toBe(201);
  const { key } = await cluster.caller(name, { policy_id: policy.body.id });
  const failures: string[] = [];
  let [served, refused, known] = [0, 0, 0];
  let servedBeforeContention: number | undefined;
  let isOver = false;
  let running: Promise<void> | undefined;

  async function sendOne(): Promise<void> {
    const body = { model: 'mock/echo', max_tokens: 50, messages: [{ role: 'user', content: 'weigh' }] };
    try {
      const response = await fetch(`${cluster.inferenceUrl}/v1/chat/completions`, {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json', connection: 'close' },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      if (response.status === 200) served++;
      else if (text.includes('budget_exhausted')) refused++;
      else if (text.includes('budget_contended')) {
        refused++;
        servedBeforeContention ??= served;
      } else if (isKnown(text)) known++;
      else failures.push(`${name}: ${response.status} ${text.slice(0, 300)}`);
    } catch (error) {
      failures.push(`${name}: ${String(error)} ${String((error as Error).cause ?? '')}`);
    }
  }
  return {
    failures,
    start() {
      isOver = false;
      running = (async () => {
        while (!isOver) {
          await sendOne();
          await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        }
      })();
    },
    async stop() {
      isOver = true;
      await running;
    },
    inWords: () => `${name}: ${served} served, ${refused} refused, ${known} as known of the earlier release`,
    async expectKept() {
      const { body } = await manage(cluster, 'GET', '/api/v1/usage', { key });
      expect(served).toBeGreaterThan(0);
      expect(refused).toBeGreaterThan(0);
      expect(body.bucket_spent_micro_usd).toBeLessThanOrEqual(LIMIT_MICRO_USD);
      const { rows, costNanoUsd } = await spent(cluster, name);
      expect(rows).toBe(served);
      const before = ((servedBeforeContention ?? served) * costNanoUsd) / rows;
      expect(before).toBeGreaterThan(CONTENDED_FROM * LIMIT_MICRO_USD * 1_000);
    },
  };
}

async function spent({ db }: Cluster, principal: string): Promise<{ rows: number; costNanoUsd: number }> {
  const { rows, cost } = await db
    .selectFrom('usage_events')
    .select(({ fn }) => [fn.countAll<number>().as('rows'), fn.sum('cost_nano_usd').as('cost')])
    .where('principal_id', '=', principal)
    .executeTakeFirstOrThrow();
  return { rows: Number(rows), costNanoUsd: Number(cost) };
}
