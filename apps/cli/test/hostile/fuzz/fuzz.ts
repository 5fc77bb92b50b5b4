import { createHash } from 'node:crypto';
import { eventually } from '@weighbridge/testing';
import { type Random, randomFrom } from '../../faults/random.ts';
import { growthDuring, operate } from '../product.ts';
import type { Answer, Scene, Tenant } from '../scene.ts';
import { type FuzzedRequest, fuzzedRequest } from './mutate.ts';

const AT_ONCE = 8;
const REQUESTS_PER_TENANT = 40;
const QUIET_MS = 1_500;
const MODES = ['hard', 'balanced', 'none'] as const;
type FuzzMode = (typeof MODES)[number];

export interface FuzzResult {
  readonly requests: number;
  /** Answers by status; 0: the client left. */
  readonly statuses: Readonly<Record<number, number>>;
  /** Over all tenants, in micro-USD. */
  readonly billed: number;
  readonly charged: number;
  /** The most that the process grew, in bytes. */
  readonly growth: number;
  /** Everything that a vendor, a tenant or an operator would complain about. */
  readonly wrong: readonly object[];
}

interface FuzzTenant extends Tenant {
  readonly mode: FuzzMode;
  readonly canary: string;
  readonly limit: number | undefined;
  sent: number;
}

/** Sends this many changed requests, and compares the vendors' bills with the ledger, tenant by tenant. */
export async function fuzz(scene: Scene, count: number, seed: number): Promise<FuzzResult> {
  const run = new Fuzz(scene, seed);
  const growth = await growthDuring(scene.product, 'inference', () => run.send(count));
  return { ...(await run.result(count)), growth };
}

class Fuzz {
  readonly #scene: Scene;
  readonly #seed: number;
  readonly #tenants: FuzzTenant[] = [];
  readonly #current = new Map<FuzzMode, Promise<FuzzTenant>>();
  readonly #stored: { readonly id: string; readonly owner: string; readonly madeBy: FuzzedRequest }[] = [];
  readonly #statuses: Record<number, number> = {};
  readonly #wrong: object[] = [];
  readonly #sent = new Map<string, { readonly fuzzed: FuzzedRequest; readonly script: object }>();

  constructor(scene: Scene, seed: number) {
    this.#scene = scene;
    this.#seed = seed;
  }

  async send(count: number): Promise<void> {
    let next = 0;
    const worker = async () => {
      for (let at = next++; at < count; at = next++) await this.#one(at);
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
  }

  async #one(at: number): Promise<void> {
    // Each request depends on its number only, so that it can be repeated alone.
    const random = randomFrom(this.#seed * 1_000_003 + at);
    const tenant = await this.#tenantOf(random);
    const known = this.#stored.length > 0 ? random.pick(this.#stored) : undefined;
    const fuzzed = fuzzedRequest(random, { canary: tenant.canary, stored: known?.id ?? 'resp_none' });
    const script = scriptOf(random, tenant.mode);
    const asking = { script, headers: { 'x-number': String(at), 'x-svc-labels': `n=${at}` } };
    this.#sent.set(String(at), { fuzzed, script });
    const complain = (what: string, more: object = {}) =>
      this.#wrong.push({ what, at, seed: this.#seed, mode: tenant.mode, ...shown(fuzzed), script, ...more });
    try {
      if (tenant.mode === 'hard' && random.chance(0.1)) {
        await tenant.leave(fuzzed.seed.path, fuzzed.body, { ...asking, afterBytes: random.integer(2_000) });
        this.#count(0);
        return;
      }
      const answer = await tenant.ask(fuzzed.seed.path, fuzzed.body, asking);
      this.#check(answer, tenant, script, complain);
      const { id, object } = answer.json;
      if (object === 'response' && typeof id === 'string')
        this.#stored.push({ id, owner: tenant.mark, madeBy: fuzzed });
      if (known && known.owner !== tenant.mark && random.chance(0.05)) {
        const read = await tenant.ask(`/v1/responses/${known.id}`, undefined);
        if (read.status !== 404)
          complain(`read another tenant's response: ${read.status}`, {
            id: known.id,
            madeBy: shown(known.madeBy),
          });
      }
    } catch (error) {
      // The answer broke off, as the vendor was told to do.
      this.#count(0);
      if (script.reset === undefined)
        complain(`no answer: ${(error as Error).message} ${String((error as Error).cause)}`);
    }
  }

  #check(
    answer: Answer,
    tenant: FuzzTenant,
    script: Record<string, string>,
    complain: (what: string, more?: object) => void,
  ): void {
    this.#count(answer.status);
    const foreign = canariesIn(answer.text).find((found) => !isSameCanary(found, tenant.canary));
    if (foreign !== undefined) complain(`the answer has a string of another tenant: ${foreign}`);
    const isOurs = answer.status >= 500 && !(answer.status === 503 && answer.headers.has('retry-after'));
    if (isOurs && script.reset === undefined) complain(`${answer.status}: ${answer.text.slice(0, 300)}`);
  }

  #count(status: number): void {
    this.#statuses[status] = (this.#statuses[status] ?? 0) + 1;
  }

  async #tenantOf(random: Random): Promise<FuzzTenant> {
    const mode = random.pick([...MODES]);
    const limit = random.pick([1_000, 3_000, 30_000, 300_000]);
    const current = await this.#current.get(mode);
    if (current && current.sent++ < REQUESTS_PER_TENANT) return current;
    const next = this.#newTenant(mode, mode === 'hard' ? limit : undefined);
    this.#current.set(mode, next);
    return await next;
  }

  async #newTenant(mode: FuzzMode, limit: number | undefined): Promise<FuzzTenant> {
    const policies = {
      hard: { limit_micro_usd: limit, budget_mode: 'hard' },
      balanced: { limit_micro_usd: 1_000_000_000_000 },
      none: {},
    };
    const made = await this.#scene.tenant(policies[mode]);
    const tenant = { ...made, mode, limit, canary: canaryOf(made.mark), sent: 1 };
    this.#tenants.push(tenant);
    return tenant;
  }

  async result(count: number): Promise<Omit<FuzzResult, 'growth'>> {
    const ledger = await this.#settledLedger();
    let [billed, charged] = [0, 0];
    for (const tenant of this.#tenants) {
      const bill = tenant.billed();
      const cost = ledger.get(tenant.keyId) ?? 0;
      billed += bill;
      charged += cost;
      const { mode, limit, mark } = tenant;
      if (limit !== undefined && bill > limit)
        this.#wrong.push({ what: 'limit passed', mark, limit, bill, cost });
      if (bill <= cost) continue;
      this.#wrong.push({ what: 'billed more than charged', mark, mode, bill, cost });
      this.#wrong.push(...(await this.#shortfalls(tenant)));
    }
    await this.#expectNothingReserved(ledger);
    const { length } = this.#tenants;
    if (length === 0) throw new Error('no tenant sent anything');
    return { requests: count, statuses: this.#statuses, billed, charged, wrong: this.#wrong };
  }

  /** The requests of a tenant that the vendor bills higher than the ledger. */
  async #shortfalls(tenant: FuzzTenant): Promise<object[]> {
    const costs = new Map<string, number>();
    for (const row of await tenant.rows(0)) {
      const { labels } = row.attribution as { labels?: { n?: string } };
      const number = labels?.n ?? '';
      costs.set(number, (costs.get(number) ?? 0) + Number(row.cost_micro_usd));
    }
    const found: object[] = [];
    for (const [number, bill] of tenant.billedBy('x-number')) {
      const cost = costs.get(number) ?? 0;
      const sent = this.#sent.get(number);
      if (bill <= cost || !sent) continue;
      found.push({ what: 'short', number, bill, cost, script: sent.script, ...shown(sent.fuzzed) });
    }
    return found;
  }

  /** The spend by key, once it does not change any more. */
  async #settledLedger(): Promise<Map<string, number>> {
    let last = '';
    let quietSince = performance.now();
    return await eventually(
      async () => {
        const found = new Map<string, number>();
        for (const { keyId } of this.#tenants) {
          const usage = await operate(this.#scene.product, 'GET', `/api/v1/keys/${keyId}/usage`);
          found.set(keyId, Number(usage.bucket_spent_micro_usd));
        }
        const text = JSON.stringify([...found]);
        if (text !== last) [last, quietSince] = [text, performance.now()];
        if (performance.now() - quietSince < QUIET_MS) throw new Error('the ledger still changes');
        return found;
      },
      { intervalMs: 300 },
    );
  }

  /**
   * What a hard budget affords is the limit that the proxy sets for a request without one. A used budget must afford as much
   * as a fresh one of what it has left: else a reservation was forgotten.
   */
  async #expectNothingReserved(ledger: ReadonlyMap<string, number>): Promise<void> {
    const used = this.#tenants.filter(({ keyId, limit = 0 }) => limit - (ledger.get(keyId) ?? 0) > 1_000);
    for (const tenant of used.slice(0, 5)) {
      const left = (tenant.limit ?? 0) - (ledger.get(tenant.keyId) ?? 0);
      const fresh = await this.#newTenant('hard', left);
      const [expected, afforded] = [await this.#affords(fresh), await this.#affords(tenant)];
      if (Math.abs(expected - afforded) > 0.02 * expected + 2) {
        this.#wrong.push({ what: 'a reservation is left', mark: tenant.mark, left, expected, afforded });
      }
    }
  }

  async #affords(tenant: FuzzTenant): Promise<number> {
    const body = { model: 'local/plain', messages: [{ role: 'user', content: 'weigh' }] };
    const script = { 'output-tokens': '1' };
    await tenant.ask('/v1/chat/completions', body, { script, headers: { 'x-probe': tenant.mark } });
    const sent = this.#scene
      .vendor('local')
      .requests.findLast(({ headers }) => headers['x-probe'] === tenant.mark);
    return Number((JSON.parse(String(sent?.body ?? '{}')) as { max_tokens?: number }).max_tokens ?? 0);
  }
}

/** How the vendor misbehaves. Where the budget is not hard, only in ways that do not hide what it bills. */
function scriptOf(random: Random, mode: FuzzMode): Record<string, string> {
  const script: Record<string, string> = {};
  if (random.chance(0.1)) script.encoding = random.pick(['gzip', 'br', 'deflate']);
  if (random.chance(0.1)) script.split = String(1 + random.integer(2_000));
  if (random.chance(0.1)) script['served-tier'] = random.pick(['default', 'priority', 'flex']);
  const padding = random.chance(0.05) ? String(random.integer(3_000_000)) : undefined;
  // Packed, it is a bomb, whose usage no one reads.
  if (padding !== undefined && (mode === 'hard' || !script.encoding)) script['pad-bytes'] = padding;
  if (mode !== 'hard') return script;
  if (random.chance(0.1)) script['no-usage'] = 'true';
  if (random.chance(0.05)) script.reset = random.pick(['before', 'headers', 'mid']);
  if (random.chance(0.2)) script['after-disconnect'] = 'bill';
  if (random.chance(0.1)) script['hidden-reasoning'] = 'true';
  if (random.chance(0.1)) script['chunk-delay-ms'] = '5';
  return script;
}

const shown = ({ seed, body }: FuzzedRequest) => ({
  name: seed.name,
  path: seed.path,
  body: body.slice(0, 2_000),
});

/** The result in a line. */
export function inWords({ requests, statuses, billed, charged, growth, wrong }: FuzzResult): string {
  const answers = Object.entries(statuses)
    .map(([status, count]) => `${count} × ${status === '0' ? 'left' : status}`)
    .join(', ');
  return `${requests} requests (${answers}); billed ${billed}, charged ${charged} micro-USD; grew by ${Math.round(growth / 2 ** 20)} MiB; ${wrong.length} wrong`;
}

/** A text that only one tenant sends; its first letters tell it from the others', since errors quote texts cut. */
function canaryOf(mark: string): string {
  return `canary-${createHash('sha256').update(mark).digest('hex').slice(0, 16)}`;
}

function canariesIn(text: string): string[] {
  return text.match(/canary-[\da-f]+/g) ?? [];
}

/** One is the other, or the beginning of it: errors cut what they quote, and mutations append to it. */
function isSameCanary(one: string, other: string): boolean {
  return one.startsWith(other) || other.startsWith(one);
}
