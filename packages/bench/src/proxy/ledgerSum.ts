import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { TOKENS } from './workload.ts';

const POLL_MS = 200;
/** Longest time without a new row. */
const STANDSTILL_MS = 60_000;
const RECORDED_POLL_MS = 25;
const RECORDED_TIMEOUT_MS = 120_000;

/** The ledger's total of a run. */
export interface LedgerSum {
  readonly events: number;
  readonly nanoUsd: bigint;
}

export interface SumOptions {
  /** Price of a request. Default: the catalog's. */
  readonly priceNanoUsd?: bigint;
  readonly standstillMs?: number;
}

/**
 * Resolves with the ledger's sum when it has these requests, each once, and their cost is requests × price. Throws if the
 * ledger stops growing before that, or has anything else.
 */
export async function checkLedgerSum(
  databaseUrl: string,
  requests: number,
  options: SumOptions = {},
): Promise<LedgerSum> {
  const { priceNanoUsd, standstillMs = STANDSTILL_MS } = options;
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    const price = priceNanoUsd ?? (await requestPrice(client));
    let seen = -1;
    let seenAt = performance.now();
    for (;;) {
      const sum = await ledgerSum(client);
      if (sum.events === requests && sum.nanoUsd === price * BigInt(requests)) return sum;
      if (sum.events !== seen) {
        seen = sum.events;
        seenAt = performance.now();
      }
      if (sum.events >= requests || performance.now() - seenAt > standstillMs) {
        throw new Error(
          `${requests} requests at ${price} nano-USD are ${price * BigInt(requests)}; the ledger has ${sum.events} events of ${sum.nanoUsd} nano-USD`,
        );
      }
      await sleep(POLL_MS);
    }
  } finally {
    await client.end();
  }
}

/** Waits until the ledger has recorded the proxies' events, by its watermarks, without reading rows. */
export async function watchRecorded(
  databaseUrl: string,
): Promise<{ until(events: number): Promise<void>; close(): Promise<void> }> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  return {
    async until(events) {
      const deadline = performance.now() + RECORDED_TIMEOUT_MS;
      for (;;) {
        const { rows } = await client.query<{ events: string }>(
          'SELECT coalesce(sum(recorded_n), 0) AS events FROM producer_shards',
        );
        const recorded = Number(rows[0]?.events);
        if (recorded === events) return;
        if (recorded > events || performance.now() > deadline) {
          throw new Error(`of ${events} requests, ${recorded} are in the ledger`);
        }
        await sleep(RECORDED_POLL_MS);
      }
    },
    close: () => client.end(),
  };
}

async function ledgerSum(client: pg.Client): Promise<LedgerSum> {
  const { rows } = await client.query<{ events: string; nano: string }>(`
    SELECT count(*) AS events, coalesce(sum(cost_nano_usd), 0) AS nano FROM usage_events`);
  return { events: Number(rows[0]?.events), nanoUsd: BigInt(rows[0]?.nano ?? 0) };
}

/** The price of a request: the catalog's price per million tokens × the usage that every response reports. */
async function requestPrice(client: pg.Client): Promise<bigint> {
  const { rows } = await client.query<{ input: string; output: string }>(`
    SELECT price ->> 'input_nano_usd' AS input, price ->> 'output_nano_usd' AS output FROM model_prices
    WHERE model_id = 'mock/echo' ORDER BY version DESC LIMIT 1`);
  const [price] = rows;
  if (!price) throw new Error('mock/echo has no price');
  const ofMillion = BigInt(price.input) * BigInt(TOKENS.input) + BigInt(price.output) * BigInt(TOKENS.output);
  return ofMillion / 1_000_000n;
}
