import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { TOKENS } from './workload.ts';

const LOOK_MS = 200;
/** Without a single new row. */
const STANDSTILL_MS = 60_000;
const RECORDED_LOOK_MS = 25;
const RECORDED_TIMEOUT_MS = 120_000;

/** What the ledger holds of a run. */
export interface LedgerSum {
  readonly events: number;
  readonly nanoUsd: bigint;
}

export interface SumOptions {
  /** Of a request; by the catalog unless told. */
  readonly priceNanoUsd?: bigint;
  readonly standstillMs?: number;
}

/**
 * Resolves with the ledger's sum once it holds so many requests, each once and all of them together at requests × price.
 * Throws where it stands still before that, and where it holds anything else.
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
      const held = await ledgerSum(client);
      if (held.events === requests && held.nanoUsd === price * BigInt(requests)) return held;
      if (held.events !== seen) {
        seen = held.events;
        seenAt = performance.now();
      }
      if (held.events >= requests || performance.now() - seenAt > standstillMs) {
        throw new Error(
          `${requests} requests at ${price} nano-USD are ${price * BigInt(requests)}; the ledger holds ${held.events} events of ${held.nanoUsd} nano-USD`,
        );
      }
      await sleep(LOOK_MS);
    }
  } finally {
    await client.end();
  }
}

/** Waits for what proxies send to be recorded, without a look at each row. */
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
        await sleep(RECORDED_LOOK_MS);
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

/** By the catalog's price of a million tokens, and what every answer says that it used. */
async function requestPrice(client: pg.Client): Promise<bigint> {
  const { rows } = await client.query<{ input: string; output: string }>(`
    SELECT input_nano_usd AS input, output_nano_usd AS output FROM model_prices
    WHERE model_id = 'mock/echo' ORDER BY version DESC LIMIT 1`);
  const [price] = rows;
  if (!price) throw new Error('mock/echo has no price');
  const ofMillion = BigInt(price.input) * BigInt(TOKENS.input) + BigInt(price.output) * BigInt(TOKENS.output);
  return ofMillion / 1_000_000n;
}
