import {
  type BucketRef,
  bucketAt,
  bucketKey,
  bucketOfKey,
  countersOf,
  keySubject,
  POLICY_SUBJECT,
  windowStartOf,
} from '@weighbridge/budget';
import type { Database } from '@weighbridge/database';
import { type WindowKind, windowAt } from '@weighbridge/domain';
import { sql } from 'kysely';
import { answerLeaseCalls } from '../../src/leases/answerLeaseCalls.ts';
import { closeLeases } from '../../src/leases/closeLeases.ts';
import { pruneLeases } from '../../src/leases/pruneLeases.ts';
import { foldWindows } from '../../src/maintenance/foldWindows.ts';
import { closeEpoch, registerProducer } from '../../src/producers/producers.ts';
import { recordUsage } from '../../src/recording/recordUsage.ts';
import { eventId, ledgerEvent } from '../events.ts';
import { eventsOnly, openMonth } from '../ledger.ts';
import { insertPolicy, type PolicyRow } from '../policies.ts';
import { counterMonth, expectCounted } from './counterSums.ts';

const DAY_MS = 86_400_000;
const START_MS = Date.UTC(2025, 0, 1);
const DAYS = 365;
const KEYS = Array.from({ length: 6 }, (_, n) => `key_${n}`);
const PROXIES = 2;
/** Each proxy is replaced this often. */
const EPOCH_DAYS = 5;
const LEASES_DAYS = 2;
const FOLD_DAYS = 3;

interface Holder {
  readonly producerId: string;
  readonly epoch: string;
}

export interface Year {
  /** Rows by month, with and without folding. */
  readonly table: string;
  /** Days on which the tables had other rows than they should have. */
  readonly violations: readonly string[];
}

/**
 * A year of keys with a window a day, of a team with one an hour and of a company with one that never ends, on proxies that are replaced
 * every few days. Each evening maintenance runs.
 */
export async function simulateYear(db: Database): Promise<Year> {
  const year = new SimulatedYear(db);
  for (let day = 0; day < DAYS; day++) await year.day(day);
  await expectCounted(db, 'after a year');
  return { table: year.lines.join('\n'), violations: year.violations };
}

class SimulatedYear {
  readonly lines = [row('day', 'buckets', 'without', 'leases', 'without', 'months')];
  readonly violations: string[] = [];
  readonly #db: Database;
  readonly #kinds = new Map<string, WindowKind>();
  /** Every bucket that was ever counted in, with the end of its window; every lease; and the day on which its epoch was closed. */
  readonly #buckets = new Map<string, number>();
  readonly #leases = new Map<string, { readonly key: string; readonly holder: Holder }>();
  readonly #closedOn = new Map<string, number>();
  #holders: Holder[] = [];
  #ids = 0;

  constructor(db: Database) {
    this.#db = db;
  }

  async day(day: number): Promise<void> {
    const at = (hours: number) => new Date(START_MS + day * DAY_MS + hours * 3_600_000);
    if (day === 0) await this.#begin(at(0));
    if (day % EPOCH_DAYS === 0) await this.#replaceProxies(day, at(1));
    for (const holder of this.#holders) await this.#serve(holder, at);
    while (await closeLeases(this.#db));
    const leasesBefore = new Date(at(24).getTime() - LEASES_DAYS * DAY_MS);
    while (await pruneLeases(this.#db, { closedBefore: leasesBefore }));
    const foldBefore = new Date(at(24).getTime() - FOLD_DAYS * DAY_MS);
    await foldWindows(this.#db, { leasesBefore, foldBefore, pages: 1_000, pageSize: 200 });
    await this.#check(day, at(24), { leasesBefore, foldBefore });
  }

  async #begin(at: Date): Promise<void> {
    await openMonth(this.#db, at);
    const policies: readonly (readonly [string, WindowKind, PolicyRow['counter_scope']])[] = [
      ['pol_keys', 'day', 'key'],
      ['pol_team', 'hour', 'policy'],
      ['pol_company', 'none', 'policy'],
    ];
    for (const [id, kind, counter_scope] of policies) {
      this.#kinds.set(id, kind);
      const limit_nano_usd = kind === 'hour' ? null : 1_000_000_000n;
      await insertPolicy(this.#db, id, { window_kind: kind, counter_scope, limit_nano_usd, created_at: at });
    }
  }

  async #replaceProxies(day: number, at: Date): Promise<void> {
    const before = this.#holders;
    this.#holders = Array.from({ length: PROXIES }, (_, n) => ({
      producerId: before[n]?.producerId ?? eventId(1_000_000 + n),
      epoch: eventId(2_000_000 + ++this.#ids),
    }));
    for (const holder of this.#holders) await registerProducer(this.#db, { ...holder, name: '', now: at });
    for (const ended of before) {
      await closeEpoch(this.#db, { ...ended, lastN: [0n, 0n, 0n, 0n], now: at });
      await this.#db
        .updateTable('producers')
        .set({ ended_at: at })
        .where('epoch', '=', ended.epoch)
        .execute();
      this.#closedOn.set(ended.epoch, day);
    }
  }

  /** Leases, usage of each key and some of each hour, and returns. */
  async #serve(holder: Holder, at: (hours: number) => Date): Promise<void> {
    const noon = at(12);
    const leased = [
      ...KEYS.map((key) => this.#bucket('pol_keys', noon, keySubject(key))),
      this.#bucket('pol_company', noon),
    ];
    const seq = BigInt(noon.getTime());
    const ask = { seq, returnedNanoUsd: 0n, wantNanoUsd: 10n, minimumNanoUsd: 0n };
    const calls = leased.map((bucket) => ({ bucket, ...ask }));
    const results = await answerLeaseCalls(this.#db, { ...holder, calls, now: noon });
    for (const bucket of leased)
      this.#leases.set(`${bucketKey(bucket)} ${holder.epoch}`, { key: bucketKey(bucket), holder });
    const events = KEYS.map((key, n) => {
      const admittedAt = at((n * 5 + this.#ids++) % 24);
      const { row } = ledgerEvent(++this.#ids, {
        key,
        admittedAt,
        principal: `principal_${n % 2}`,
        cost: 3n,
      });
      const buckets = [
        this.#bucket('pol_keys', admittedAt, keySubject(key)),
        this.#bucket('pol_team', admittedAt),
        this.#bucket('pol_company', admittedAt),
      ];
      const origin = { producer_id: holder.producerId, epoch: holder.epoch, shard: 0, n: BigInt(this.#ids) };
      return { row: { ...row, ...origin }, buckets, workloadType: undefined };
    });
    await recordUsage(this.#db, eventsOnly(events), noon);
    const back = calls.map((call, n) => ({
      ...call,
      ...{ seq: seq + 1n, returnedNanoUsd: results[n]?.grantedNanoUsd ?? 0n, wantNanoUsd: 0n },
    }));
    await answerLeaseCalls(this.#db, { ...holder, calls: back, now: noon });
    for (const { row, buckets } of events)
      for (const key of countersOf(buckets, row.principal_id).keys())
        this.#buckets.set(key, this.#endOf(key));
  }

  /** What is there is what should be: the rows of windows that are not due, and one a counter and month of the others. */
  async #check(
    day: number,
    now: Date,
    due: { readonly leasesBefore: Date; readonly foldBefore: Date },
  ): Promise<void> {
    const isOver = (key: string, before: Date) => (this.#buckets.get(key) ?? 0) < before.getTime();
    const isClosedBefore = ({ epoch }: Holder) =>
      START_MS + (this.#closedOn.get(epoch) ?? DAYS) * DAY_MS + 3_600_000 < due.leasesBefore.getTime();
    const keys = [...this.#buckets.keys()];
    const expected = {
      buckets: keys.filter((key) => !isOver(key, due.foldBefore)).length,
      leases: [...this.#leases.values()].filter(
        ({ key, holder }) => !isOver(key, due.leasesBefore) && !isClosedBefore(holder),
      ).length,
      months: new Set(keys.filter((key) => isOver(key, due.foldBefore)).map(counterMonth)).size,
    };
    const { rows } = await sql<typeof expected>`
      SELECT (SELECT count(*)::integer FROM spend_buckets) AS buckets, (SELECT count(*)::integer FROM budget_leases) AS leases,
        (SELECT count(*)::integer FROM spend_by_month) AS months`.execute(this.#db);
    const [actual] = rows;
    if (JSON.stringify(actual) !== JSON.stringify(expected))
      this.violations.push(`day ${day}: ${JSON.stringify(actual)}, not ${JSON.stringify(expected)}`);
    if (now.getUTCDate() !== 1 || !actual) return;
    const { buckets, leases, months } = actual;
    this.lines.push(
      row(now.toISOString().slice(0, 10), buckets, keys.length, leases, this.#leases.size, months),
    );
  }

  #bucket(policyId: string, at: Date, subject: string = POLICY_SUBJECT): BucketRef {
    const kind = this.#kinds.get(policyId) ?? 'none';
    return bucketAt({ policyId, counterVersion: 1, subject }, windowAt(kind, 'UTC', at).start);
  }

  #endOf(key: string): number {
    const bucket = bucketOfKey(key);
    const { end } = windowAt(this.#kinds.get(bucket.policyId) ?? 'none', 'UTC', windowStartOf(bucket));
    return end?.getTime() ?? Number.POSITIVE_INFINITY;
  }
}

function row(...cells: readonly (string | number)[]): string {
  return cells.map((cell) => String(cell).padStart(10)).join(' ');
}
