import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';
import { type Quantiles, quantiles } from '../shared/quantiles.ts';
import type { ControlPlane, RunningProxy } from '../shared/service.ts';

const BODY = JSON.stringify({
  model: 'mock/echo',
  max_tokens: 16,
  messages: [{ role: 'user', content: 'weigh' }],
});
const CONNECTIONS = 256;
const REQUEST_TIMEOUT_MS = 30_000;
/** Requests sent at once when as many as possible are. */
const AT_ONCE = 64;

/** What became of requests: their times, and how many had another status than 200. */
export interface Sent {
  readonly ms: Quantiles;
  readonly requests: number;
  readonly failed: number;
}

/** Sends small requests of many keys to proxies. */
export class ScaleLoad {
  readonly #pools: readonly Pool[];

  constructor(proxies: readonly RunningProxy[]) {
    this.#pools = proxies.map(
      ({ url }) =>
        new Pool(url, {
          connections: CONNECTIONS,
          headersTimeout: REQUEST_TIMEOUT_MS,
          bodyTimeout: REQUEST_TIMEOUT_MS,
        }),
    );
  }

  /** One request of each key to each proxy, as fast as they go. */
  once(keys: readonly string[]): Promise<Sent> {
    const due = keys.flatMap((key) => this.#pools.map((_, proxy) => ({ key, proxy })));
    return this.#all(due);
  }

  /** As many requests of a key, to the proxies in turns, as fast as they go. `customerOf`: who each is for; default: it does not say. */
  many(key: string, count: number, customerOf?: (at: number) => string): Promise<Sent> {
    const due = Array.from({ length: count }, (_, at) => ({
      key,
      proxy: at % this.#pools.length,
      ...(customerOf && { headers: { 'x-svc-user': customerOf(at) } }),
    }));
    return this.#all(due);
  }

  async #all(due: readonly Request[]): Promise<Sent> {
    const record = new Outcomes();
    let next = 0;
    const worker = async () => {
      for (let one = due[next++]; one; one = due[next++]) await this.#send(one, record);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
    return record.sent();
  }

  /** `rate` requests per second for `ms`, each at its time, by a key and a proxy in turns. */
  async open(keys: readonly string[], rate: number, ms: number): Promise<Sent> {
    const record = new Outcomes();
    const start = performance.now();
    const sending: Promise<void>[] = [];
    for (let elapsedMs = 0; elapsedMs < ms; elapsedMs = performance.now() - start) {
      const due = Math.floor((elapsedMs / 1_000) * rate);
      while (sending.length < due) {
        const at = sending.length;
        // Each key reaches each proxy, whatever divides their numbers.
        const proxy = (at + Math.floor(at / keys.length)) % this.#pools.length;
        sending.push(this.#send({ key: keys[at % keys.length] ?? '', proxy }, record));
      }
      await sleep(1);
    }
    await Promise.all(sending);
    return record.sent();
  }

  async close(): Promise<void> {
    for (const pool of this.#pools) await pool.close();
  }

  async #send({ key, proxy, headers: more }: Request, record: Outcomes): Promise<void> {
    const began = performance.now();
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json', ...more };
    const pool = this.#pools[proxy] as Pool;
    const status = await pool
      .request({ method: 'POST', path: '/v1/chat/completions', headers, body: BODY })
      .then(async ({ statusCode, body }) => {
        await body.dump();
        return statusCode;
      })
      .catch(() => 0);
    record.add(performance.now() - began, status);
  }
}

interface Request {
  readonly key: string;
  /** Its index. */
  readonly proxy: number;
  readonly headers?: Readonly<Record<string, string>>;
}

class Outcomes {
  readonly #ms: number[] = [];
  #failed = 0;

  add(ms: number, status: number): void {
    this.#ms.push(ms);
    if (status !== 200) this.#failed++;
  }

  sent(): Sent {
    return { ms: quantiles(this.#ms), requests: this.#ms.length, failed: this.#failed };
  }
}

/** How many gRPC calls of these names the control plane has served so far. */
export async function controlCalls(
  { metricsUrl }: ControlPlane,
  ...calls: readonly ('resolve' | 'resolveKeys' | 'lease')[]
): Promise<number> {
  const text = await (await fetch(metricsUrl, { signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS) })).text();
  const counts = [...text.matchAll(/^weighbridge_control_calls_total\{([^}]*)\} (\d+)/gm)];
  return counts
    .filter(([, labels]) => calls.some((call) => labels?.includes(`call="${call}"`)))
    .reduce((sum, [, , count]) => sum + Number(count), 0);
}
