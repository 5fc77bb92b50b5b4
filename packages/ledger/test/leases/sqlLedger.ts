import {
  type BucketRef,
  bucketKey,
  type Counts,
  type CountUnit,
  furtherLimitId,
  OTHERS_SUBJECT,
  POLICY_SUBJECT,
  UNKNOWN_SUBJECT,
  valueSubject,
} from '@weighbridge/budget';
import {
  type AtRest,
  amountIn,
  type Counter,
  type Decision,
  type Fault,
  FURTHER_LIMITS,
  type FurtherName,
  firstUseSteps,
  type Holder,
  isOfCustomer,
  type LeaseLedger,
  type LeaseName,
  MAIN_LIMITS,
  MAX_COUNTERS,
  OTHERS_LIMIT,
  type Overridden,
  POLICIES,
  type PolicyName,
  type SimulatedAnswer,
  type SimulatedCall,
  type SimulatedEvent,
  type SimulatedOverride,
  STANDING,
} from '@weighbridge/budget/model';
import type { Database, Tx } from '@weighbridge/database';
import { sql } from 'kysely';
import { lockCounters } from '../../src/buckets/lockCounters.ts';
import { endDueOverrides } from '../../src/budgets/endOverrides.ts';
import { setBucketLimits } from '../../src/budgets/setBucketLimits.ts';
import { openCounter } from '../../src/counters/openCounter.ts';
import type { LedgerEvent, RefusedUsage, UsageToRecord } from '../../src/events/usage.ts';
import { answerLeaseCalls } from '../../src/leases/answerLeaseCalls.ts';
import { appendedTo } from '../../src/leases/appendedTo.ts';
import { closePortion } from '../../src/leases/closeLeases.ts';
import { answerWindowCalls } from '../../src/leases/firstUseWindows.ts';
import { mergeSpendWithin } from '../../src/merging/mergeSpend.ts';
import { closeEpoch, registerProducer } from '../../src/producers/producers.ts';
import { discardQuarantined } from '../../src/quarantine/quarantine.ts';
import { releaseQuarantined } from '../../src/quarantine/releaseQuarantined.ts';
import { eventId, ledgerEvent } from '../events.ts';
import { insertPolicy } from '../policies.ts';
import { encodedEvent } from '../usageEvents.ts';

const HOUR_MS = 3_600_000;
const START_MS = Date.parse('2026-01-01T00:00:00Z');
/** The windows of two simulations never overlap. */
const HOURS_PER_SIMULATION = 24;

export interface SqlLedgerOptions {
  readonly db: Database;
  /** Separates its policies, proxies and events from those of other simulations in the database. */
  readonly simulation: number;
  readonly windowSteps: number;
  readonly fault?: Fault;
  /** Records usage, possibly in a transaction with that of other simulations. */
  readonly record: (usage: UsageToRecord) => Promise<void>;
}

/** The ledger, through the functions that the control plane and metering call. A fault is planted in SQL beside it. */
export function sqlLedger(options: SqlLedgerOptions): LeaseLedger {
  return new SqlLedger(options);
}

class SqlLedger implements LeaseLedger {
  readonly #options: SqlLedgerOptions;
  readonly #startMs: number;
  readonly #known = new Map<string, { readonly counter: Counter; readonly bucket: BucketRef }>();
  readonly #recorded = new Set<number>();
  /** The amounts of P's further limits. */
  readonly #further: Record<FurtherName, number> = { M: 0, T: 0, C: 0, R: 0, F: 0 };
  /** Only for the fault `merge-settles-first`: by bucket, what is settled and not spent. */
  readonly #unspent = new Map<string, bigint>();

  constructor(options: SqlLedgerOptions) {
    this.#options = options;
    this.#startMs = START_MS + options.simulation * HOURS_PER_SIMULATION * HOUR_MS;
  }

  async start(limits: Readonly<Record<PolicyName, number>>): Promise<void> {
    for (const name of FURTHER_LIMITS) this.#further[name] = limits[name];
    for (const policy of MAIN_LIMITS) {
      await insertPolicy(this.#options.db, this.#policyId(policy), {
        limit_nano_usd: BigInt(limits[policy]),
        window_kind: 'hour',
        counter_scope: 'policy',
        created_at: this.#at(0),
        ...(policy === 'P' && { limits: this.#furtherLimits() }),
      });
    }
  }

  #furtherLimits() {
    const { M, T, C, R, F } = this.#further;
    const minutes = (60 * firstUseSteps(this.#options.windowSteps)) / this.#options.windowSteps;
    const amounts = [
      { id: 'lim_M', limit_nano_usd: String(M), limit_tokens: T },
      { id: 'lim_C', limit_nano_usd: String(C), limit_requests: R },
      { id: 'lim_F', limit_nano_usd: String(F), window_kind: 'first_use', window_every: `${minutes}m` },
    ];
    return amounts.map((limit) => ({
      window_kind: 'hour',
      ...limit,
      counter_version: 1,
      timezone: 'UTC',
      others_limit_nano_usd: String(OTHERS_LIMIT),
      enforcement: 'enforce',
      thresholds: [],
      max_counters: MAX_COUNTERS,
    }));
  }

  async register(holder: Holder, before: Holder | undefined): Promise<void> {
    await registerProducer(this.#options.db, { ...this.#ids(holder), name: '', now: this.#at(0) });
    if (before && this.#options.fault === 'restart-refunds')
      await this.#refund({ epoch: this.#epochId(before) });
  }

  async call(holder: Holder, calls: readonly SimulatedCall[], step: number): Promise<SimulatedAnswer[]> {
    const asked = [];
    for (const call of calls) {
      const of = this.#bucket(call.counter);
      const lease =
        this.#options.fault === 'returns-as-deltas' || this.#options.fault === 'grants-again'
          ? await this.#leaseRow(holder, bucketKey(of))
          : undefined;
      asked.push({
        bucket: of,
        seq: this.#options.fault === 'grants-again' ? (lease?.seq ?? 0n) + 1n : BigInt(call.seq),
        returnedNanoUsd:
          BigInt(call.returned) +
          (this.#options.fault === 'returns-as-deltas' ? (lease?.returned_nano_usd ?? 0n) : 0n),
        wantNanoUsd: BigInt(call.want),
        minimumNanoUsd: BigInt(call.minimum),
        standingNanoUsd: BigInt(call.standing),
        keyId: isOfCustomer(call.counter) ? `key_${call.namedBy}` : '',
      });
      if (call.release) await this.#refund({ epoch: this.#epochId(holder), key: bucketKey(of) });
    }
    const answers = await answerLeaseCalls(this.#options.db, {
      ...this.#ids(holder),
      calls: asked,
      now: this.#at(step),
      standing: {
        each: BigInt(STANDING.each),
        eachNanoUsd: 1_000_000n,
        together: this.#options.fault === 'standing-for-each' ? 1n : BigInt(STANDING.together),
      },
    });
    return answers.map(({ grantedNanoUsd, standingNanoUsd, outcome }) => ({
      granted: Number(grantedNanoUsd),
      standing: Number(standingNanoUsd),
      exhausted: outcome === 'exhausted',
      others: outcome === 'others',
    }));
  }

  async windowOf(opens: boolean, step: number): Promise<number | undefined> {
    const { db, fault, windowSteps } = this.#options;
    if (fault === 'windows-overlap') {
      if (!opens) return undefined;
      await sql`
        INSERT INTO window_starts (limit_id, counter_version, subject, started_at)
        VALUES (${this.#policyId('F')}, 1, ${POLICY_SUBJECT}, ${this.#at(step)}) ON CONFLICT DO NOTHING`.execute(
        db,
      );
      return step;
    }
    const bucket = { policyId: this.#policyId('F'), counterVersion: 1, subject: POLICY_SUBJECT };
    const [answer] = await answerWindowCalls(db, [{ bucket, keyId: '', opens }], this.#at(step));
    if (!answer?.start) return undefined;
    return Math.round(((answer.start.getTime() - this.#startMs) * windowSteps) / HOUR_MS);
  }

  async record(event: SimulatedEvent): Promise<void> {
    const origin = this.#originOf(event);
    const isUnnumbered = event.refused && this.#options.fault === 'quarantine-lacks-number';
    await this.#options.record({
      events: event.refused ? [] : [this.#ledgerEvent(event)],
      refused: event.refused ? [this.#refusedUsage(event)] : [],
      received: isUnnumbered ? [] : [{ ...origin, firstN: origin.n, count: 1 }],
    });
    if (event.refused) return;
    if (this.#options.fault === 'settle-by-reserve' && !this.#recorded.has(event.id))
      await this.#settleReserve(event);
    this.#recorded.add(event.id);
  }

  #originOf({ holder, n }: SimulatedEvent) {
    return { ...this.#ids(holder), shard: 0, n: BigInt(n) };
  }

  #eventId({ id }: SimulatedEvent): string {
    return eventId(this.#options.simulation * 1_000_000 + id);
  }

  #ledgerEvent(event: SimulatedEvent): LedgerEvent {
    const made = ledgerEvent(0, { cost: BigInt(event.cost.money), admittedAt: this.#at(event.admittedStep) });
    const counts = countsOf(event);
    const { producerId: producer_id, ...origin } = this.#originOf(event);
    return {
      row: {
        ...made.row,
        event_id: this.#eventId(event),
        producer_id,
        ...origin,
        ...(counts && { details: JSON.stringify({ counts: event.cost }) }),
      },
      ...(counts && { counts }),
      buckets: event.counters.map((counter) => this.#bucket(counter)),
    };
  }

  /** Its bytes are those of an event that the rules allow, so that it can be released. */
  #refusedUsage(event: SimulatedEvent): RefusedUsage {
    const counts = countsOf(event);
    const admittedAtMs = BigInt(this.#at(event.admittedStep).getTime());
    const payload = encodedEvent({
      eventId: this.#eventId(event),
      costNanoUsd: BigInt(event.cost.money),
      ...(counts && { counts: { ...counts, requests: event.cost.requests } }),
      admittedAtMs,
      settledAtMs: admittedAtMs,
      buckets: event.counters.map((counter) => this.#bucket(counter)),
    });
    return { kind: 'event', payload, reason: 'x', origin: this.#originOf(event), principalId: 'ada' };
  }

  async decide(event: SimulatedEvent, decision: Decision, step: number): Promise<void> {
    const { db, fault } = this.#options;
    const { producerId, n } = this.#originOf(event);
    const { id, state } = await db
      .selectFrom('quarantined_usage')
      .select(['id', 'state'])
      .where('producer_id', '=', producerId)
      .where('epoch', '=', this.#epochId(event.holder))
      .where('n', '=', n)
      .executeTakeFirstOrThrow();
    const by = { id, by: 'ada', now: this.#at(step) };
    if (decision === 'released') await releaseQuarantined(db, by);
    else await discardQuarantined(db, { ...by, note: 'no spend' });
    if (fault === 'release-counts-again' && decision === 'released' && state !== 'held') {
      const { row, buckets } = this.#ledgerEvent(event);
      const again = { row: { ...row, event_id: eventId(900_000_000_000 + Number(id)) }, buckets };
      await this.#options.record({ events: [again], refused: [], received: [] });
    }
    if (fault === 'discard-counts' && decision === 'discarded') {
      await this.#options.record({ events: [this.#ledgerEvent(event)], refused: [], received: [] });
    }
  }

  async declareLast(holder: Holder, lastN: number, step: number): Promise<void> {
    await closeEpoch(this.#options.db, {
      ...this.#ids(holder),
      lastN: [BigInt(lastN), 0n, 0n, 0n],
      now: this.#at(step),
    });
  }

  async closeLeases(most: number): Promise<LeaseName[]> {
    const { db, fault } = this.#options;
    const epochs = await this.#endedEpochs();
    for (const { producer_id: producerId, epoch, state } of epochs) {
      if (state !== 'closed') {
        if (fault === 'closes-superseded') await this.#refund({ epoch });
        continue;
      }
      const closed = (await closePortion(db, { producerId, epoch }, most)) ?? [];
      if (closed.length === 0) continue;
      if (fault === 'closes-one-portion')
        await db.updateTable('producers').set({ leases: 'closed' }).where('epoch', '=', epoch).execute();
      return closed.map((lease) => ({
        holder: holderOf(lease.epoch),
        key: this.#known.get(lease.bucketKey)?.counter.key ?? lease.bucketKey,
      }));
    }
    return [];
  }

  /** Of this simulation alone, as metering finds them in the whole ledger; and superseded ones that are not closed. */
  async #endedEpochs() {
    const { rows } = await sql<{ producer_id: string; epoch: string; state: string }>`
      SELECT producer_id, epoch, state FROM producers
      WHERE producer_id = ANY (${[0, 1, 2].map((proxy) => this.#producerId(proxy))}::uuid[])
        AND leases = 'open' AND (state = 'closed' OR superseded_by IS NOT NULL)
        AND (${this.#options.fault === 'close-returns-quarantined'} OR NOT EXISTS (
          SELECT FROM quarantined_usage AS held WHERE held.state = 'held' AND held.epoch = producers.epoch
        ))
      ORDER BY epoch`.execute(this.#options.db);
    return rows;
  }

  async mergeSpend(policy: PolicyName, most: number): Promise<void> {
    const of = { policyId: this.#policyId(policy), ...(Number.isFinite(most) && { most }) };
    const isUnspent = this.#options.fault === 'merge-settles-first' && Number.isFinite(most);
    await this.#options.db.transaction().execute(async (tx) => {
      await lockCounters(tx, 'shared');
      for (const [key, nano] of this.#unspent) await this.#addSpent(tx, key, nano);
      this.#unspent.clear();
      const oldest = isUnspent ? await this.#oldestAppended(tx, policy, most) : [];
      await mergeSpendWithin(tx, of);
      for (const { bucket_key, nano_usd } of oldest) {
        await this.#addSpent(tx, bucket_key, -nano_usd);
        this.#unspent.set(bucket_key, nano_usd + (this.#unspent.get(bucket_key) ?? 0n));
      }
    });
  }

  async crashMerging(policy: PolicyName, most: number): Promise<void> {
    const { db, fault } = this.#options;
    const died = new Error('the worker died');
    const merging = db.transaction().execute(async (tx) => {
      await lockCounters(tx, 'shared');
      const oldest = await this.#oldestAppended(tx, policy, most);
      if (fault === 'merge-lost') {
        const ids = oldest.map(({ id }) => id);
        await tx.deleteFrom('appended_spend').where('id', '=', sql<bigint>`ANY (${ids}::bigint[])`).execute();
        return;
      }
      await mergeSpendWithin(tx, { policyId: this.#policyId(policy), most });
      if (fault !== 'merged-again') throw died;
      for (const { id: _, ...row } of oldest) await tx.insertInto('appended_spend').values(row).execute();
    });
    await merging.catch((error) => {
      if (error !== died) throw error;
    });
  }

  async #oldestAppended(tx: Tx, policy: PolicyName, most: number) {
    return await tx
      .selectFrom('appended_spend')
      .selectAll()
      .where(sql<boolean>`starts_with(bucket_key, ${`${this.#policyId(policy)}/`})`)
      .orderBy('id')
      .limit(most)
      .execute();
  }

  async #addSpent(tx: Tx, key: string, nano: bigint): Promise<void> {
    await sql`
      UPDATE spend_buckets SET spent_nano_usd = spent_nano_usd + ${nano}::bigint WHERE bucket_key = ${key}`.execute(
      tx,
    );
  }

  async setLimit(policy: PolicyName, limit: number, step: number): Promise<void> {
    const isMain = policy === 'P' || policy === 'A' || policy === 'B';
    if (!isMain) this.#further[policy] = limit;
    await this.#options.db.transaction().execute(async (tx) => {
      await tx
        .updateTable('policies')
        .set(isMain ? { limit_nano_usd: BigInt(limit) } : { limits: JSON.stringify(this.#furtherLimits()) })
        .where('id', '=', this.#policyId(isMain ? policy : 'P'))
        .execute();
      await setBucketLimits(tx, [this.#policyId(policy)], this.#at(step));
    });
  }

  async startOverride(of: Overridden, override: SimulatedOverride, step: number): Promise<void> {
    const [policyId, now] = [this.#policyId(of.policy), this.#at(step)];
    const subject = subjectOf(of);
    const isOutliving = this.#options.fault === 'override-outlives';
    const ends = isOutliving ? 1_000_000 : override.ends;
    await this.#options.db.transaction().execute(async (tx) => {
      // A counter has one at a time.
      if (isOutliving) await this.#endOverrideOf(tx, { policyId, subject, now });
      const made = { policy_id: policyId, subject, reason: 'simulated', created_by: 'ada' };
      const times = { created_at: now, updated_at: now, ends_at: this.#at(ends) };
      await tx
        .insertInto('budget_overrides')
        .values({
          id: `${policyId}/${subject}/${step}`,
          ...made,
          ...times,
          limit_nano_usd: BigInt(override.limit),
        })
        .execute();
      await setBucketLimits(tx, [policyId], now);
    });
  }

  async endOverride(of: Overridden, step: number): Promise<void> {
    const { policy } = of;
    const [policyId, now] = [this.#policyId(policy), this.#at(step)];
    const subject = subjectOf(of);
    await this.#options.db.transaction().execute(async (tx) => {
      await this.#endOverrideOf(tx, { policyId, subject, now });
      await setBucketLimits(tx, [policyId], now);
    });
    if (this.#options.fault === 'override-end-refunds') await this.#refund({ policy });
  }

  async #endOverrideOf(
    tx: Tx,
    { policyId, subject, now }: { policyId: string; subject: string; now: Date },
  ): Promise<void> {
    await tx
      .updateTable('budget_overrides')
      .set({ ended_at: now })
      .where('policy_id', '=', policyId)
      .where('subject', '=', subject)
      .where('ended_at', 'is', null)
      .execute();
  }

  async endDueOverrides(step: number): Promise<void> {
    const now = this.#at(step);
    for (const policy of POLICIES) {
      const due = { now, limit: 10, policyId: this.#policyId(policy) };
      const { ended } = await this.#options.db.transaction().execute((tx) => endDueOverrides(tx, due));
      const isRefunding = this.#options.fault === 'override-end-refunds' && ended.length > 0;
      if (isRefunding) await this.#refund({ policy });
    }
  }

  async startCounter(next: Counter, step: number): Promise<void> {
    await this.#options.db.transaction().execute(async (tx) => {
      const policy = await tx
        .updateTable('policies')
        .set({ counter_version: next.version + 1, counter_since: this.#at(step) })
        .where('id', '=', this.#policyId(next.policy))
        .returningAll()
        .executeTakeFirstOrThrow();
      await openCounter(tx, policy, this.#at(step));
      if (this.#options.fault !== 'counter-not-carried') return;
      await sql`
        WITH carried AS (
          UPDATE budget_leases SET also_bucket_key = NULL WHERE also_bucket_key = ${bucketKey(this.#bucket(next))}
        )
        UPDATE spend_buckets SET leased_nano_usd = 0 WHERE bucket_key = ${bucketKey(this.#bucket(next))}`.execute(
        tx,
      );
    });
  }

  async expire(which: number): Promise<void> {
    if (this.#options.fault === 'expiry-refunds') await this.#refund({ which });
  }

  async exposure(of: Counter): Promise<number> {
    const { rows } = await sql<{ exposure: bigint }>`
      SELECT coalesce(bucket.spent_nano_usd, 0) + coalesce(bucket.leased_nano_usd, 0) + appended.spent - appended.settled
        AS exposure
      FROM (SELECT ${bucketKey(this.#bucket(of))}::text AS key) AS named
      LEFT JOIN spend_buckets AS bucket ON bucket.bucket_key = named.key
      CROSS JOIN LATERAL (${appendedTo(sql.ref('named.key'))}) AS appended`.execute(this.#options.db);
    return Number(rows[0]?.exposure ?? 0n) + Number(this.#unspent.get(bucketKey(this.#bucket(of))) ?? 0n);
  }

  async atRest(): Promise<AtRest> {
    const buckets = await this.#options.db
      .selectFrom('spend_buckets')
      .select(['bucket_key', 'spent_nano_usd', 'leased_nano_usd'])
      .where(
        'policy_id',
        'in',
        POLICIES.map((policy) => this.#policyId(policy)),
      )
      .execute();
    const held = await this.#options.db
      .selectFrom('budget_leases')
      .select(['bucket_key', 'epoch', 'hold_nano_usd'])
      .where(
        'producer_id',
        'in',
        [0, 1, 2].map((proxy) => this.#producerId(proxy)),
      )
      .where('hold_nano_usd', '>', 0n)
      .execute();
    return {
      buckets: buckets.flatMap((row) => {
        const counter = this.#known.get(row.bucket_key)?.counter;
        if (!counter) return [];
        return [{ key: counter.key, spent: Number(row.spent_nano_usd), leased: Number(row.leased_nano_usd) }];
      }),
      held: held.map((row) => ({
        holder: holderOf(row.epoch),
        key: this.#known.get(row.bucket_key)?.counter.key ?? row.bucket_key,
        hold: Number(row.hold_nano_usd),
      })),
    };
  }

  /** Against the rules: returns what is held and not settled. */
  async #refund(of: {
    readonly epoch?: string;
    readonly key?: string;
    readonly which?: number;
    readonly policy?: PolicyName;
  }): Promise<void> {
    const prefix = of.policy ? `${this.#policyId(of.policy)}/` : `pol_${this.#options.simulation}_`;
    await this.#options.db.transaction().execute(async (tx) => {
      const { rows } = await sql<{ bucket_key: string; epoch: string }>`
        SELECT bucket_key, epoch FROM budget_leases
        WHERE hold_nano_usd > 0 AND starts_with(bucket_key, ${prefix})
          AND (${of.epoch ?? null}::uuid IS NULL OR epoch = ${of.epoch ?? null}::uuid)
          AND (${of.key ?? null}::text IS NULL OR bucket_key = ${of.key ?? null}::text)
        ORDER BY bucket_key COLLATE "C", producer_id, epoch FOR UPDATE`.execute(tx);
      const chosen =
        of.which === undefined ? rows : rows.slice(Math.floor(of.which * rows.length)).slice(0, 1);
      for (const lease of chosen) {
        await sql`
          WITH held AS (
            SELECT * FROM budget_leases WHERE bucket_key = ${lease.bucket_key} AND epoch = ${lease.epoch}
          ), refunded AS (
            UPDATE budget_leases AS lease SET returned_nano_usd = lease.granted_nano_usd - lease.settled_nano_usd
            FROM held WHERE lease.bucket_key = held.bucket_key AND lease.epoch = held.epoch
          )
          UPDATE spend_buckets AS bucket SET leased_nano_usd = bucket.leased_nano_usd - held.hold_nano_usd
          FROM held WHERE bucket.bucket_key IN (held.bucket_key, held.also_bucket_key)`.execute(tx);
      }
    });
  }

  /** Against the rules: also settles the part of the reservation beyond the cost. */
  async #settleReserve({ holder, counters, cost, reserve }: SimulatedEvent): Promise<void> {
    for (const of of counters) {
      const rest = amountIn(of, reserve) - amountIn(of, cost);
      await sql`
        WITH held AS (
          SELECT * FROM budget_leases
          WHERE bucket_key = ${bucketKey(this.#bucket(of))} AND epoch = ${this.#epochId(holder)} AND NOT closed
        ), settled AS (
          UPDATE budget_leases AS lease SET settled_nano_usd = lease.settled_nano_usd + ${rest}::bigint
          FROM held WHERE lease.bucket_key = held.bucket_key AND lease.epoch = held.epoch
        )
        UPDATE spend_buckets AS bucket
        SET leased_nano_usd = bucket.leased_nano_usd - least(held.hold_nano_usd, ${rest}::bigint)
        FROM held WHERE bucket.bucket_key IN (held.bucket_key, held.also_bucket_key)`.execute(
        this.#options.db,
      );
    }
  }

  async #leaseRow(holder: Holder, key: string) {
    return await this.#options.db
      .selectFrom('budget_leases')
      .select(['seq', 'returned_nano_usd'])
      .where('bucket_key', '=', key)
      .where('epoch', '=', this.#epochId(holder))
      .executeTakeFirst();
  }

  #policyId(policy: PolicyName): string {
    const further = FURTHER_IDS[policy];
    if (further) return furtherLimitId(this.#policyId('P'), ...further);
    return `pol_${this.#options.simulation}_${policy}`;
  }

  #at(step: number): Date {
    return new Date(this.#startMs + Math.floor((step / this.#options.windowSteps) * HOUR_MS));
  }

  #producerId(proxy: number): string {
    return uuid(this.#options.simulation, proxy, 0);
  }

  #epochId({ proxy, epoch }: Holder): string {
    return uuid(this.#options.simulation, proxy, epoch + 1);
  }

  #ids(holder: Holder): { readonly producerId: string; readonly epoch: string } {
    return { producerId: this.#producerId(holder.proxy), epoch: this.#epochId(holder) };
  }

  #bucket(counter: Counter): BucketRef {
    const made = {
      policyId: this.#policyId(counter.policy),
      counterVersion: counter.version + 1,
      subject: subjectOf(counter),
      windowStartMs: BigInt(
        counter.policy === 'F'
          ? this.#at(counter.window).getTime()
          : this.#startMs + counter.window * HOUR_MS,
      ),
    };
    this.#known.set(bucketKey(made), { counter, bucket: made });
    return made;
  }
}

/** The further limit that has the amount, and what it is of. */
const FURTHER_IDS: Partial<Record<PolicyName, readonly [limitId: string, unit?: CountUnit]>> = {
  M: ['lim_M'],
  T: ['lim_M', 'tokens'],
  C: ['lim_C'],
  R: ['lim_C', 'requests'],
  F: ['lim_F'],
};

/** As a proxy sends them: only if a limit counts them. */
function countsOf({ counters, cost }: SimulatedEvent): Counts | undefined {
  const isCounted = counters.some(({ policy }) => policy === 'T' || policy === 'R');
  return isCounted ? { requests: BigInt(cost.requests), tokens: BigInt(cost.tokens) } : undefined;
}

function subjectOf({ customer }: Overridden): string {
  if (customer === undefined) return POLICY_SUBJECT;
  if (customer === 'unknown') return UNKNOWN_SUBJECT;
  return customer === 'others' ? OTHERS_SUBJECT : valueSubject('user', customer);
}

/** The UUIDv7, of 2026, of a simulation's proxy (epoch 0) or of one of its epochs, counted from 1. */
function uuid(simulation: number, proxy: number, epoch: number): string {
  const hex = (value: number, length: number) => value.toString(16).padStart(length, '0');
  return `019b7000-0000-7000-8${hex(proxy, 3)}-${hex(simulation, 8)}${hex(epoch, 4)}`;
}

function holderOf(epochId: string): Holder {
  return {
    proxy: Number.parseInt(epochId.slice(20, 23), 16),
    epoch: Number.parseInt(epochId.slice(-4), 16) - 1,
  };
}
