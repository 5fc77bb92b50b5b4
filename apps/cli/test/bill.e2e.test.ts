import { Agent, request } from 'node:http';
import type { BillEntry } from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Caller, type Cluster, startCluster } from './faults/cluster.ts';

const REQUESTS = 10_000;
const AT_ONCE = 32;
const SEED = 20_261_120;

let cluster: Cluster;
let caller: Caller;

beforeAll(async () => {
  const dataPlane = {
    UPSTREAM_CHUNK_TIMEOUT_MS: '2000',
    // What the vendor is told to do wrong, it would do again.
    UPSTREAM_MAX_RETRIES: '0',
  };
  cluster = await startCluster({ env: { dataPlane } });
  caller = await cluster.caller('bill');
}, 120_000);
afterAll(() => cluster?.close());

/** A small generator of pseudo-random numbers from 0 to 1 (https://en.wikipedia.org/wiki/Xorshift), so that a run can be repeated. */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

interface Asked {
  readonly path: string;
  readonly body: object;
  readonly headers: Record<string, string>;
  /** Bytes after which the caller leaves. */
  readonly leavesAfter: number | undefined;
}

/** One request of the mix: any route, any way of misbehaving. */
function mixed(random: () => number): Asked {
  const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
  const chance = (share: number) => random() < share;
  const text = 'weigh '.repeat(1 + Math.floor(random() * 40));
  const messages = [{ role: 'user', content: text }];
  const stream = chance(0.5);
  const [path, body] = pick<[string, object]>([
    ['/v1/chat/completions', { model: 'mock/echo', messages, stream }],
    [
      '/v1/chat/completions',
      { model: 'mock/echo', messages, stream, ...(stream && { stream_options: { include_usage: true } }) },
    ],
    ['/v1/responses', { model: 'mock/echo', input: text, stream, store: chance(0.2) }],
    ['/v1/messages', { model: 'mock/echo', max_tokens: 1_000, messages, stream }],
    ['/v1/embeddings', { model: 'mock/echo', input: text }],
  ]);
  const headers: Record<string, string> = {};
  if (chance(0.5)) headers['x-mock-split'] = String(1 + Math.floor(random() * 300));
  if (chance(0.3)) headers['x-mock-encoding'] = pick(['gzip', 'deflate', 'br']);
  if (path !== '/v1/embeddings') {
    if (chance(0.3)) headers['x-mock-reasoning-tokens'] = String(Math.floor(random() * 50));
    if (chance(0.3)) headers['x-mock-cached-tokens'] = String(Math.floor(random() * 4));
    if (chance(0.2) && path === '/v1/messages') headers['x-mock-cache-write-1h-tokens'] = '2';
    if (chance(0.2) && path === '/v1/messages') headers['x-mock-cache-write-tokens'] = '1';
  }
  const trouble = random();
  if (trouble < 0.02) headers['x-mock-status'] = pick(['400', '429', '500', '503']);
  else if (trouble < 0.04) headers['x-mock-no-usage'] = 'true';
  else if (trouble < 0.07) headers['x-mock-reset'] = pick(['before', 'headers', 'mid']);
  else if (trouble < 0.075) headers['x-mock-stall'] = 'mid';
  else if (trouble < 0.085 && stream) headers['x-mock-sse-error'] = 'true';
  const leaves = trouble > 0.9 && path !== '/v1/embeddings';
  if (leaves && chance(0.5)) headers['x-mock-chunk-delay-ms'] = '2';
  return { path, body, headers, leavesAfter: leaves ? Math.floor(random() * 2_000) : undefined };
}

const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });

/** Sends a request with its number; resolves when it is over, however it ends. */
function send(number: number, { path, body, headers, leavesAfter }: Asked): Promise<void> {
  return new Promise((resolve) => {
    const sent = request(`${cluster.inferenceUrl}${path}`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${caller.key}`,
        'content-type': 'application/json',
        'accept-encoding': 'gzip, deflate, br',
        'x-svc-labels': `n=${number}`,
        'x-number': String(number),
        ...headers,
      },
    });
    sent.on('response', (answer) => {
      let bytes = 0;
      if (leavesAfter === 0) sent.destroy();
      answer.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (leavesAfter !== undefined && bytes >= leavesAfter) sent.destroy();
      });
      answer.on('error', () => {});
      answer.on('close', resolve);
    });
    sent.on('error', () => resolve());
    sent.on('close', resolve);
    sent.end(JSON.stringify(body));
  });
}

/** What the vendor charges for an entry, at the prices of mock/echo in nano-USD per token. */
function charge(entry: BillEntry): bigint {
  const { cachedInputTokens: cached, inputTokens, outputTokens } = entry;
  return BigInt(inputTokens - cached) * 1_000n + BigInt(cached) * 100n + BigInt(outputTokens) * 2_000n;
}

it(`the vendor's bill equals the ledger to the nano-USD over ${REQUESTS} mixed requests`, async () => {
  const random = randomFrom(SEED);
  const asked = Array.from({ length: REQUESTS }, () => mixed(random));
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < REQUESTS; at = next++) await send(at, asked[at] as Asked);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  agent.destroy();

  const { vendor, db } = cluster;
  // Each request that reached the vendor is one row of the ledger, whatever became of it.
  const received = new Map(vendor.requests.map((one) => [String(one.headers['x-number']), one.requestId]));
  expect(received.size).toBe(REQUESTS);
  const rows = await eventually(
    async () => {
      const found = await db
        .selectFrom('usage_events')
        .select(['cost_nano_usd', 'estimated', 'outcome', 'attribution', 'input_tokens', 'output_tokens'])
        .execute();
      expect(found).toHaveLength(REQUESTS);
      return found;
    },
    { timeoutMs: 30_000, intervalMs: 250 },
  );

  const bill = new Map(vendor.bill.map((entry) => [entry.requestId, entry]));
  const sums = {
    exact: 0,
    exactBilled: 0n,
    exactLedger: 0n,
    estimated: 0,
    estimatedBilled: 0n,
    estimatedLedger: 0n,
    reserved: 0,
    ledger: 0n,
  };
  const wrong: unknown[] = [];
  for (const row of rows) {
    const number = (row.attribution as { labels: { n: string } }).labels.n;
    const entry = bill.get(received.get(number) ?? '');
    const billed = entry ? charge(entry) : 0n;
    const ledger = BigInt(row.cost_nano_usd);
    sums.ledger += ledger;
    if (row.estimated) {
      const { headers, leavesAfter } = asked[Number(number)] as Asked;
      if (['before', 'headers'].includes(headers['x-mock-reset'] ?? '')) {
        // Nothing of an answer came: what was reserved is charged, which goes by how long the model's answers usually are.
        sums.reserved++;
        if (ledger === 0n) wrong.push({ number, billed, ...asked[Number(number)], row });
      } else {
        sums.estimated++;
        sums.estimatedBilled += billed;
        sums.estimatedLedger += ledger;
      }
      // Only where the vendor did not say, or was not heard to its end.
      const reason =
        headers['x-mock-no-usage'] ??
        headers['x-mock-reset'] ??
        headers['x-mock-stall'] ??
        headers['x-mock-sse-error'];
      if (reason === undefined && leavesAfter === undefined)
        wrong.push({ number, ...asked[Number(number)], row });
    } else {
      sums.exact++;
      sums.exactBilled += billed;
      sums.exactLedger += ledger;
      if (billed !== ledger) wrong.push({ number, billed, ...asked[Number(number)], row });
    }
  }
  expect(wrong).toEqual([]);
  expect(sums.exactLedger).toBe(sums.exactBilled);
  expect(sums.exact).toBeGreaterThan(0.9 * REQUESTS);
  // Estimates are not far off in sum.
  expect(Number(sums.estimatedLedger) / Number(sums.estimatedBilled)).toBeGreaterThan(0.5);
  expect(Number(sums.estimatedLedger) / Number(sums.estimatedBilled)).toBeLessThan(3);

  const [bucket] = await db.selectFrom('spend_buckets').selectAll().execute();
  expect(bucket?.spent_nano_usd).toBe(sums.ledger);
  process.stdout.write(
    `bill and ledger: ${sums.exact} exact, ${sums.exactLedger} nano-USD; ` +
      `${sums.estimated} estimated, ${sums.estimatedLedger} for ${sums.estimatedBilled}; ${sums.reserved} at their reserve\n`,
  );
}, 180_000);
