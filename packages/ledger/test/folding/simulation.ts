import { type BucketRef, bucketAt, bucketKey, keySubject, POLICY_SUBJECT } from '@weighbridge/budget';
import { createDb, type Database, isUnavailable } from '@weighbridge/database';
import { seededRandom, type WindowKind, windowAt } from '@weighbridge/domain';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { expect } from 'vitest';
import { openCounter } from '../../src/counters/openCounter.ts';
import { answerLeaseCalls } from '../../src/leases/answerLeaseCalls.ts';
import { closeLeases } from '../../src/leases/closeLeases.ts';
import { pruneLeases } from '../../src/leases/pruneLeases.ts';
import { foldWindows } from '../../src/maintenance/foldWindows.ts';
import { maintainPartitions } from '../../src/maintenance/partitions.ts';
import { rebuildBuckets } from '../../src/maintenance/rebuild.ts';
import { closeEpoch, registerProducer } from '../../src/producers/producers.ts';
import { recordUsage } from '../../src/recording/recordUsage.ts';
import { recordCorrection } from '../../src/requests/corrections.ts';
import { eventId, ledgerEvent } from '../events.ts';
import { openFaultyConnection } from '../faultyConnection.ts';
import { eventsOnly, openMonth } from '../ledger.ts';
import { insertPolicy, type PolicyRow } from '../policies.ts';
import { expectCounted } from './counterSums.ts';

/** Plausible mistakes. Each loses or doubles money, or a hold. */
export type FoldFault = 'folds-twice' | 'folds-held' | 'loses-late' | 'forgets-openings';

const START_MS = Date.UTC(2026, 0, 5);
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const KEYS = ['key_1', 'key_2', 'key_3'];
const FOREVER = new Date('2200-01-01T00:00:00Z');

interface Lease {
  readonly bucket: BucketRef;
  seq: bigint;
  granted: bigint;
  returned: bigint;
}

interface Holder {
  readonly producerId: string;
  readonly epoch: string;
  readonly leases: Map<string, Lease>;
}

/** A busy machine may pause for longer than a transaction may, which ends it. All of this is safe to repeat. */
async function again<T>(run: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    }
  }
}

/**
 * Weeks of a ledger: usage, late usage and corrections, leases, epochs that end, changed policies, dropped months, damage and rebuilds,
 * while windows are folded by a process that crashes at any statement. After each step, each counter has in each month what the
 * ledger's rows add up to. Rejects with the seed and the step otherwise.
 */
export class FoldSimulation {
  readonly #url: string;
  readonly #db: Database;
  readonly #seed: number;
  readonly #fault: FoldFault | undefined;
  readonly #random: () => number;
  #nowMs = START_MS;
  #step = 0;
  #ids = 0;
  readonly #requests: string[] = [];
  #holders: Holder[] = [];
  #after: string | undefined;

  constructor(database: { readonly url: string; readonly db: Database }, seed: number, fault?: FoldFault) {
    this.#url = database.url;
    this.#db = database.db;
    this.#seed = seed;
    this.#fault = fault;
    this.#random = seededRandom(seed);
  }

  async run(steps: number): Promise<void> {
    await openMonth(this.#db, new Date(START_MS));
    const created_at = new Date(START_MS);
    const limited = { limit_nano_usd: 1_000_000n, created_at };
    await insertPolicy(this.#db, 'pol_keys', { window_kind: 'day', ...limited });
    await insertPolicy(this.#db, 'pol_team', { window_kind: 'hour', counter_scope: 'policy', created_at });
    const berlin = { timezone: 'Europe/Berlin', counter_scope: 'policy', ...limited } as const;
    await insertPolicy(this.#db, 'pol_company', { window_kind: 'month', ...berlin });
    await insertPolicy(this.#db, 'pol_life', { window_kind: 'none', counter_scope: 'policy', ...limited });
    this.#holders = [await this.#newHolder(), await this.#newHolder()];
    for (this.#step = 1; this.#step <= steps; this.#step++) {
      this.#nowMs += Math.floor(this.#random() * 36 * HOUR_MS);
      const [name, act] = this.#pick(this.#acts());
      await act().catch((error) => this.#fail(name, error));
      await expectCounted(this.#db, `seed ${this.#seed}, step ${this.#step}: ${name}`);
    }
    await this.#comeToRest();
  }

  #acts(): readonly (readonly [string, () => Promise<unknown>])[] {
    const fold = () => this.#keepingSums(() => this.#fold());
    return [
      ['record', () => this.#record()],
      ['record', () => this.#record()],
      ['record', () => this.#record()],
      ['correct', () => this.#correct()],
      ['lease', () => this.#lease()],
      ['return', () => this.#return()],
      ['end an epoch', () => this.#endEpoch()],
      ['close leases', () => this.#keepingSums(() => again(() => closeLeases(this.#db, 1)), false)],
      ['prune leases', () => this.#keepingSums(() => this.#prune())],
      ['fold', fold],
      ['fold', fold],
      ['fold', fold],
      ['change a policy', () => this.#change()],
      ['drop a month', () => this.#keepingSums(() => this.#drop())],
      ['rebuild', () => this.#rebuild()],
      ['damage', () => this.#damage()],
      ["an earlier release's rebuild", () => this.#rebuildByEarlierRelease()],
      [
        'all at once',
        () =>
          Promise.all([
            this.#record(),
            this.#fold(),
            this.#record(),
            this.#rebuild(),
            this.#lease(),
            this.#return(),
          ]),
      ],
    ];
  }

  async #record(): Promise<void> {
    const policies = await this.#policies();
    const events = Array.from({ length: this.#between(1, 6) }, () => {
      const lateMs = this.#random() * (this.#random() < 0.6 ? 6 * HOUR_MS : 12 * DAY_MS);
      const at = new Date(Math.max(START_MS, this.#nowMs - Math.floor(lateMs)));
      const key = this.#pick(KEYS);
      const holder = this.#random() < 0.8 ? this.#pick(this.#holders) : undefined;
      const { row } = ledgerEvent(++this.#ids, { key, admittedAt: at, cost: BigInt(this.#between(1, 50)) });
      this.#requests.push(row.request_id);
      const origin = holder && {
        producer_id: holder.producerId,
        epoch: holder.epoch,
        shard: 0,
        n: BigInt(this.#ids),
      };
      // Some are admitted on the counter before.
      const buckets = policies.map((policy) => this.#bucket(policy, key, at, this.#random() < 0.2));
      return { row: { ...row, ...origin }, buckets, workloadType: undefined };
    });
    for (let delivered = 0; delivered < this.#between(1, 2); delivered++)
      await again(() => recordUsage(this.#db, eventsOnly(events), this.#now()));
  }

  async #correct(): Promise<void> {
    if (this.#requests.length === 0) return;
    const requestId = this.#pick(this.#requests);
    const amountNanoUsd = BigInt(this.#between(-20, 20));
    const correction = {
      correctionId: eventId(++this.#ids, this.#now()),
      requestId,
      amountNanoUsd,
      reason: 'x',
    };
    const run = () =>
      this.#db.transaction().execute((tx) => recordCorrection(tx, { ...correction, now: this.#now() }));
    await again(run);
    if (this.#random() < 0.3) await again(run);
  }

  async #lease(): Promise<void> {
    const holder = this.#pick(this.#holders);
    const policies = (await this.#policies()).filter((policy) => policy.limit_nano_usd !== null);
    const calls = policies.map((policy) => {
      const bucket = this.#bucket(policy, this.#pick(KEYS), this.#now());
      const lease = holder.leases.get(bucketKey(bucket)) ?? { bucket, seq: 0n, granted: 0n, returned: 0n };
      lease.seq++;
      holder.leases.set(bucketKey(bucket), lease);
      const want = BigInt(this.#between(1, 60));
      return {
        bucket,
        seq: lease.seq,
        returnedNanoUsd: lease.returned,
        wantNanoUsd: want,
        minimumNanoUsd: 0n,
      };
    });
    const results = await again(() => answerLeaseCalls(this.#db, { ...holder, calls, now: this.#now() }));
    for (const { bucketKey: key, grantedNanoUsd } of results) {
      const lease = holder.leases.get(key);
      if (lease) lease.granted = grantedNanoUsd;
    }
  }

  /** Most leases are returned whole, in or after their windows; of some, a part stays. */
  async #return(): Promise<void> {
    const holder = this.#pick(this.#holders);
    const leases = [...holder.leases.values()].filter(() => this.#random() < 0.7);
    if (leases.length === 0) return;
    const calls = leases.slice(0, 100).map((lease) => {
      lease.seq++;
      lease.returned = this.#random() < 0.8 ? lease.granted : lease.returned;
      const nothing = { wantNanoUsd: 0n, minimumNanoUsd: 0n };
      return { bucket: lease.bucket, seq: lease.seq, returnedNanoUsd: lease.returned, ...nothing };
    });
    await again(() => answerLeaseCalls(this.#db, { ...holder, calls, now: this.#now() }));
  }

  async #endEpoch(): Promise<void> {
    const at = this.#between(0, this.#holders.length - 1);
    const ended = this.#holders[at] as Holder;
    this.#holders[at] = await this.#newHolder(ended.producerId);
    // Some spools are lost: what their leases hold stays.
    if (this.#random() < 0.2) return;
    await again(() => closeEpoch(this.#db, { ...ended, lastN: [0n, 0n, 0n, 0n], now: this.#now() }));
  }

  async #prune(): Promise<void> {
    const closedBefore = this.#random() < 0.5 ? FOREVER : this.#now();
    await again(() => pruneLeases(this.#db, { closedBefore, portions: 2 }));
  }

  /** A part of a pass, on a connection that may be cut at any statement. */
  async #fold(): Promise<void> {
    await this.#plantBefore();
    const kind = this.#pick(['none', 'none', 'cut before', 'cut after'] as const);
    const fault = kind === 'none' ? undefined : { kind, statement: this.#between(0, 12) };
    const connection = await openFaultyConnection(this.#url, fault);
    const db = createDb(connection.url, {
      applicationName: 'folding',
      maxConnections: 1,
      onIdleError: () => {},
    });
    try {
      await sql`SELECT 1`.execute(db);
      connection.arm();
      this.#after = await foldWindows(db, {
        leasesBefore: new Date(this.#nowMs - 2 * DAY_MS),
        foldBefore: new Date(this.#nowMs - 3 * DAY_MS),
        after: this.#after,
        pages: this.#between(1, 6),
        pageSize: this.#between(1, 20),
        leasesPerPage: this.#between(1, 4),
      });
    } catch (error) {
      if (!isUnavailable(error)) throw error;
    } finally {
      await db.destroy();
      await connection.close();
    }
    await this.#plantAfter();
  }

  async #plantBefore(): Promise<void> {
    const ended = sql`window_start > 'epoch' AND window_start < ${new Date(this.#nowMs - 10 * DAY_MS)}`;
    if (this.#fault === 'folds-twice') {
      await sql`UPDATE spend_by_month AS month SET spent_nano_usd = month.spent_nano_usd + bucket.spent_nano_usd
        FROM spend_buckets AS bucket WHERE ${ended} AND month.subject = bucket.subject
          AND month.policy_id = bucket.policy_id AND bucket.window_start <= month.folded_to`.execute(
        this.#db,
      );
    }
    if (this.#fault === 'forgets-openings')
      await sql`UPDATE spend_buckets SET opening_nano_usd = 0 WHERE ${ended}`.execute(this.#db);
    if (this.#fault === 'folds-held') {
      await sql`DELETE FROM budget_leases USING spend_buckets AS bucket
        WHERE bucket.bucket_key = budget_leases.bucket_key AND ${ended}`.execute(this.#db);
    }
  }

  async #plantAfter(): Promise<void> {
    if (this.#fault !== 'loses-late') return;
    await sql`DELETE FROM spend_buckets AS bucket USING spend_by_month AS month
      WHERE month.policy_id = bucket.policy_id AND month.counter_version = bucket.counter_version
        AND month.subject = bucket.subject AND bucket.window_start <= month.folded_to AND bucket.spent_nano_usd > 0
        AND NOT EXISTS (SELECT FROM budget_leases AS lease WHERE bucket.bucket_key IN (lease.bucket_key, lease.also_bucket_key))`.execute(
      this.#db,
    );
  }

  async #change(): Promise<void> {
    const kind = this.#pick(['hour', 'day', 'week'] as const);
    await this.#db.transaction().execute(async (tx) => {
      const policy = await tx
        .updateTable('policies')
        .set((row) => ({
          window_kind: kind,
          counter_version: row('counter_version', '+', 1),
          counter_since: this.#now(),
        }))
        .where('id', '=', 'pol_keys')
        .returningAll()
        .executeTakeFirstOrThrow();
      await openCounter(tx, policy, this.#now());
    });
  }

  async #drop(): Promise<void> {
    await again(() => maintainPartitions(this.#db, { now: this.#now(), retentionDays: 14 }));
  }

  async #rebuild(): Promise<void> {
    const apply = this.#random() < 0.5;
    const found = await again(() => rebuildBuckets(this.#db, { apply }));
    expect(found).toMatchObject({ differing: [], differenceNanoUsd: 0n });
  }

  /** As from a bug, or from people with psql. */
  async #damage(): Promise<void> {
    await sql`UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + 17 WHERE subject = 'policy'`.execute(
      this.#db,
    );
    await sql`UPDATE spend_by_month SET spent_nano_usd = spent_nano_usd - 5 WHERE subject LIKE 'key%'`.execute(
      this.#db,
    );
    await this.#repair();
  }

  /** Release 0.1.0 takes folded windows for missing ones, and inserts each whole. */
  async #rebuildByEarlierRelease(): Promise<void> {
    await sql`
      INSERT INTO spend_buckets (bucket_key, policy_id, counter_version, subject, window_start, spent_nano_usd)
      SELECT key, part[1], part[2]::integer, part[4], to_timestamp(part[3]::bigint / 1000.0), sum(cost_nano_usd)
      FROM usage_events, unnest(bucket_keys) AS key, regexp_match(key, '^([^/]*)/(\\d+)/(-?\\d+)/(.*)$') AS part
      GROUP BY key, part
      ON CONFLICT DO NOTHING`.execute(this.#db);
    if (this.#random() < 0.5) await this.#fold();
    await this.#repair();
  }

  async #repair(): Promise<void> {
    const apply = () => again(() => rebuildBuckets(this.#db, { apply: true }));
    if (this.#random() < 0.5) await Promise.all([apply(), this.#fold(), this.#record()]);
    else await apply();
  }

  /** Nothing that maintenance does changes what a counter spent in a month, nor what a lease holds. */
  async #keepingSums(run: () => Promise<unknown>, keepsHolds = true): Promise<void> {
    const holds = async () =>
      await this.#db
        .selectFrom('budget_leases')
        .select(['bucket_key', 'epoch', 'hold_nano_usd'])
        .where('hold_nano_usd', '>', 0n)
        .orderBy('bucket_key')
        .orderBy('epoch')
        .execute();
    const before = { spent: (await expectCounted(this.#db, 'before')).spent, holds: await holds() };
    await run();
    expect((await expectCounted(this.#db, 'after')).spent).toEqual(before.spent);
    if (keepsHolds) expect(await holds()).toEqual(before.holds);
  }

  /** Once all has ended, what is left is a row a counter and month, the counters that never end, and what lost spools hold. */
  async #comeToRest(): Promise<void> {
    for (const holder of this.#holders)
      await closeEpoch(this.#db, { ...holder, lastN: [0n, 0n, 0n, 0n], now: this.#now() });
    while (await closeLeases(this.#db));
    while (await pruneLeases(this.#db, { closedBefore: FOREVER }));
    // Postgres may learn late that a connection is gone, and keeps its locks until then.
    await eventually(async () => {
      await foldWindows(this.#db, { leasesBefore: FOREVER, foldBefore: FOREVER, pages: 1_000 });
      expect(await this.#unfolded(), `seed ${this.#seed}`).toEqual([]);
    });
    await expectCounted(this.#db, `seed ${this.#seed}, at rest`);
    const folded = await this.#db.selectFrom('spend_by_month').select('policy_id').distinct().execute();
    expect(folded.map((row) => row.policy_id)).not.toContain('pol_life');
    await this.#rebuild();
  }

  /** Ended windows that have a row although no lease of theirs holds anything. */
  async #unfolded(): Promise<unknown[]> {
    const { rows } = await sql`
      SELECT bucket_key FROM spend_buckets AS bucket
      WHERE window_start > 'epoch' AND NOT EXISTS (
        SELECT FROM budget_leases AS lease
        WHERE bucket.bucket_key IN (lease.bucket_key, lease.also_bucket_key) AND lease.hold_nano_usd > 0
      )`.execute(this.#db);
    return rows;
  }

  async #newHolder(producerId: string = eventId(900_000 + ++this.#ids)): Promise<Holder> {
    const holder = { producerId, epoch: eventId(900_000 + ++this.#ids), leases: new Map<string, Lease>() };
    await again(() => registerProducer(this.#db, { ...holder, name: '', now: this.#now() }));
    return holder;
  }

  async #policies(): Promise<PolicyRow[]> {
    return await this.#db.selectFrom('policies').selectAll().orderBy('id').execute();
  }

  #bucket(policy: PolicyRow, key: string, at: Date, isEarlier = false): BucketRef {
    const counter = {
      policyId: policy.id,
      counterVersion: Math.max(1, policy.counter_version - (isEarlier ? 1 : 0)),
      subject: policy.counter_scope === 'key' ? keySubject(key) : POLICY_SUBJECT,
    };
    return bucketAt(counter, windowAt(policy.window_kind satisfies WindowKind, policy.timezone, at).start);
  }

  #now(): Date {
    return new Date(this.#nowMs);
  }

  #between(low: number, high: number): number {
    return low + Math.floor(this.#random() * (high - low + 1));
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#between(0, items.length - 1)] as T;
  }

  #fail(name: string, error: unknown): never {
    throw new Error(`seed ${this.#seed}, step ${this.#step}: ${name}`, { cause: error });
  }
}
