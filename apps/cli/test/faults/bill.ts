import { Agent, request } from 'node:http';
import type { BillEntry } from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import { type Caller, type Cluster, startCluster } from './cluster.ts';
import { type Random, randomFrom } from './random.ts';
import { untilMerged } from './reconciliation.ts';

const AT_ONCE = 32;

/** A cluster without retries: a request that the vendor fails would fail again. */
export function startBilledCluster(): Promise<Cluster> {
  const dataPlane = { UPSTREAM_CHUNK_TIMEOUT_MS: '2000', UPSTREAM_MAX_RETRIES: '0' };
  return startCluster({ env: { dataPlane } });
}

interface MixedRequest {
  readonly path: string;
  readonly body: object;
  readonly headers: Record<string, string>;
  /** Bytes of the response after which the client disconnects. */
  readonly disconnectsAfter: number | undefined;
}

/** One request of the mix: any route, any fault of vendor or client. */
function mixedRequest(random: Random): MixedRequest {
  const text = 'weigh '.repeat(1 + random.integer(40));
  const messages = [{ role: 'user', content: text }];
  const stream = random.chance(0.5);
  const model = 'mock/echo';
  const [path, body] = random.pick<[string, object]>([
    ['/v1/chat/completions', { model, messages, stream }],
    [
      '/v1/chat/completions',
      { model, messages, stream, ...(stream && { stream_options: { include_usage: true } }) },
    ],
    ['/v1/responses', { model, input: text, stream, store: random.chance(0.2) }],
    ['/v1/messages', { model, max_tokens: 1_000, messages, stream }],
    ['/v1/embeddings', { model, input: text }],
  ]);
  const headers: Record<string, string> = {};
  if (random.chance(0.5)) headers['x-mock-split'] = String(1 + random.integer(300));
  if (random.chance(0.3)) headers['x-mock-encoding'] = random.pick(['gzip', 'deflate', 'br']);
  if (path !== '/v1/embeddings') {
    if (random.chance(0.3)) headers['x-mock-reasoning-tokens'] = String(random.integer(50));
    if (random.chance(0.3)) headers['x-mock-cached-tokens'] = String(random.integer(4));
    if (random.chance(0.2) && path === '/v1/messages') headers['x-mock-cache-write-1h-tokens'] = '2';
    if (random.chance(0.2) && path === '/v1/messages') headers['x-mock-cache-write-tokens'] = '1';
  }
  const trouble = random.next();
  if (trouble < 0.02) headers['x-mock-status'] = random.pick(['400', '429', '500', '503']);
  else if (trouble < 0.04) headers['x-mock-no-usage'] = 'true';
  else if (trouble < 0.07) headers['x-mock-reset'] = random.pick(['before', 'headers', 'mid']);
  else if (trouble < 0.075) headers['x-mock-stall'] = 'mid';
  else if (trouble < 0.085 && stream) headers['x-mock-sse-error'] = 'true';
  const disconnects = trouble > 0.9 && path !== '/v1/embeddings';
  if (disconnects && random.chance(0.5)) headers['x-mock-chunk-delay-ms'] = '2';
  return { path, body, headers, disconnectsAfter: disconnects ? random.integer(2_000) : undefined };
}

/** Sends a request with its number; resolves at its end, whether it succeeds or not. */
function send(
  { cluster, caller, agent }: { cluster: Cluster; caller: Caller; agent: Agent },
  number: number,
  { path, body, headers, disconnectsAfter }: MixedRequest,
): Promise<void> {
  return new Promise((resolve) => {
    const sent = request(`${cluster.inferenceUrl}${path}`, {
      method: 'POST',
      agent,
      headers: {
        authorization: `Bearer ${caller.key}`,
        'content-type': 'application/json',
        'accept-encoding': 'gzip, deflate, br',
        'x-svc-labels': `n=${number}`,
        'x-client-request-id': String(number),
        ...headers,
      },
    });
    sent.on('response', (response) => {
      let bytes = 0;
      if (disconnectsAfter === 0) sent.destroy();
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
        if (disconnectsAfter !== undefined && bytes >= disconnectsAfter) sent.destroy();
      });
      response.on('error', () => {});
      response.on('close', resolve);
    });
    sent.on('error', () => resolve());
    sent.on('close', resolve);
    sent.end(JSON.stringify(body));
  });
}

/** What the vendor charges for an entry, at the prices of mock/echo in nano-USD per token. */
export function charge(entry: BillEntry): bigint {
  const { cachedInputTokens: cached, inputTokens, outputTokens } = entry;
  return BigInt(inputTokens - cached) * 1_000n + BigInt(cached) * 100n + BigInt(outputTokens) * 2_000n;
}

/** The vendor's bill and the ledger; amounts in nano-USD. */
export interface BillAndLedger {
  /** Requests that reached the vendor; each is one row of the ledger. */
  readonly received: number;
  /** Rows with the usage that the vendor counted. */
  readonly exact: number;
  readonly exactBilled: bigint;
  readonly exactLedger: bigint;
  /** Rows marked as estimated. */
  readonly estimated: number;
  readonly estimatedBilled: bigint;
  readonly estimatedLedger: bigint;
  /** Estimated rows of requests without a response, charged at their reservation. */
  readonly reserved: number;
  /** The sum of all rows, and the spend of the caller's bucket. */
  readonly ledger: bigint;
  readonly bucket: bigint | undefined;
  /** Rows that differ from the bill, or are estimated without a reason. */
  readonly wrong: readonly unknown[];
}

/** Sends this many mixed requests on a fresh cluster, and compares the vendor's bill with the ledger. */
export async function compareBill(cluster: Cluster, requests: number, seed: number): Promise<BillAndLedger> {
  const caller = await cluster.caller('bill');
  const random = randomFrom(seed);
  const requested = Array.from({ length: requests }, () => mixedRequest(random));
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE });
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < requests; at = next++)
      await send({ cluster, caller, agent }, at, requested[at] as MixedRequest);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  agent.destroy();

  const { vendor, db } = cluster;
  const received = new Map(
    vendor.requests.map((one) => [String(one.headers['x-client-request-id']), one.requestId]),
  );
  const rows = await eventually(
    async () => {
      const found = await db
        .selectFrom('usage_events')
        .select(['cost_nano_usd', 'estimated', 'outcome', 'attribution', 'input_tokens', 'output_tokens'])
        .execute();
      if (found.length !== received.size)
        throw new Error(`the ledger has ${found.length} of ${received.size} rows`);
      return found;
    },
    { intervalMs: 250 },
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
    const request = requested[Number(number)] as MixedRequest;
    const entry = bill.get(received.get(number) ?? '');
    const billed = entry ? charge(entry) : 0n;
    const ledger = BigInt(row.cost_nano_usd);
    sums.ledger += ledger;
    if (!row.estimated) {
      sums.exact++;
      sums.exactBilled += billed;
      sums.exactLedger += ledger;
      if (billed !== ledger) wrong.push({ number, billed, ...request, row });
      continue;
    }
    if (['before', 'headers'].includes(request.headers['x-mock-reset'] ?? '')) {
      // No response: the row costs its reservation, which depends on the usual length of the model's responses.
      sums.reserved++;
      if (ledger === 0n) wrong.push({ number, billed, ...request, row });
    } else {
      sums.estimated++;
      sums.estimatedBilled += billed;
      sums.estimatedLedger += ledger;
    }
    if (!mayBeEstimated(request)) wrong.push({ number, ...request, row });
  }
  await untilMerged(db);
  const [bucket] = await db.selectFrom('spend_buckets').selectAll().execute();
  return { ...sums, received: received.size, bucket: bucket?.spent_nano_usd, wrong };
}

/** Only if the vendor did not report usage, or the response was not received to its end. */
function mayBeEstimated({ headers, disconnectsAfter }: MixedRequest): boolean {
  const faults = ['x-mock-no-usage', 'x-mock-reset', 'x-mock-stall', 'x-mock-sse-error'];
  return disconnectsAfter !== undefined || faults.some((fault) => headers[fault] !== undefined);
}

export function inWords({
  exact,
  exactLedger,
  estimated,
  estimatedLedger,
  estimatedBilled,
  reserved,
}: BillAndLedger): string {
  return (
    `${exact} exact, ${exactLedger} nano-USD; ${estimated} estimated, ${estimatedLedger} for ${estimatedBilled}; ` +
    `${reserved} at their reservation`
  );
}
