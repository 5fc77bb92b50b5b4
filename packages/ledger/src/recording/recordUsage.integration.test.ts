import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { type BucketRef, keySubject, principalSubject } from '@weighbridge/budget';
import { createDb } from '@weighbridge/database';
import { untilLockWaits } from '@weighbridge/testing';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { ledgerEvent } from '../../test/events.ts';
import { eventsOnly, rangesOnly, useLedger, uuidAt } from '../../test/ledger.ts';
import { insertPolicy } from '../../test/policies.ts';
import { readSpent } from '../../test/readSpent.ts';
import type { LedgerEvent, ReceivedRange } from '../events/usage.ts';
import { answerLeaseCalls } from '../leases/answerLeaseCalls.ts';
import { closeEpoch, registerProducer } from '../producers/producers.ts';
import { readAcks } from '../producers/readAcks.ts';
import { readSpend } from '../spend/readSpend.ts';
import { recordUsage } from './recordUsage.ts';

const ledger = useLedger();

const counter = (subject: string, policyId = 'pol_a'): BucketRef => ({
  policyId,
  counterVersion: 1,
  subject,
  windowStartMs: BigInt(Date.parse('2026-11-01T00:00:00Z')),
});

const event = (n: number, cost: bigint, buckets: BucketRef[], principal = 'ada'): LedgerEvent => ({
  ...ledgerEvent(n, { cost, principal }),
  buckets,
});

const producerId = '5f0c8f5e-8a86-4d0e-9d63-0d1c7a1f0a01';
const newEpoch = () => uuidAt(new Date(Date.now() - 60_000));
const range = (epoch: string, firstN: number, count: number, shard = 0): ReceivedRange => ({
  producerId,
  epoch,
  shard,
  firstN: BigInt(firstN),
  count,
});

/** The sums over events and buckets. */
async function sums() {
  const { rows } = await sql<{ events: bigint; cost: bigint; spent: bigint }>`
    SELECT count(*) AS events, coalesce(sum(cost_nano_usd), 0)::bigint AS cost,
           (SELECT coalesce(sum(spent_nano_usd), 0)::bigint FROM spend_buckets WHERE subject = 'policy') AS spent
    FROM usage_events`.execute(ledger.db);
  return rows[0];
}

const shardRow = (epoch: string) =>
  ledger.db
    .selectFrom('producer_shards')
    .selectAll()
    .where('epoch', '=', epoch)
    .where('shard', '=', 0)
    .executeTakeFirstOrThrow();

const stateOf = async (epoch: string) =>
  (
    await ledger.db
      .selectFrom('producers')
      .select('state')
      .where('epoch', '=', epoch)
      .executeTakeFirstOrThrow()
  ).state;

describe('recordUsage', () => {
  it('counts an event once, however often and with whichever others it is delivered', async () => {
    const byPrincipal = counter(principalSubject('ada'));
    const [first, second] = [event(1, 100n, [byPrincipal]), event(2, 23n, [byPrincipal])];
    const record = async (...events: LedgerEvent[]) =>
      (await recordUsage(ledger.db, eventsOnly(events))).newEvents;

    expect(await record(first, first)).toBe(1);
    expect(await record(second, first)).toBe(1);
    expect(await record(second)).toBe(0);

    expect(await readSpend(ledger.db, byPrincipal, 'ada')).toMatchObject({
      spent: 123n,
      principalSpent: 123n,
    });
  });

  it("counts in every policy of the chain, and in the principal's own sum of each", async () => {
    const own = counter(keySubject('key_1'));
    const parent = counter('policy', 'pol_parent');
    await recordUsage(
      ledger.db,
      eventsOnly([event(1, 5n, [own, parent], 'ada'), event(2, 7n, [own, parent], 'bob')]),
    );

    expect(await readSpend(ledger.db, own, 'ada')).toMatchObject({ spent: 12n, principalSpent: 5n });
    expect(await readSpend(ledger.db, parent, 'bob')).toMatchObject({ spent: 12n, principalSpent: 7n });
    expect([...(await readSpent(ledger.db, [own, counter('policy')])).values()]).toEqual([12n, 0n]);
  });

  it('counts exactly with many concurrent writers of the same buckets', async () => {
    const shared = counter('policy');
    const batches = Array.from({ length: 8 }, (_, batch) =>
      Array.from({ length: 50 }, (_, i) =>
        event(batch * 25 + i, 1n, [shared, counter(keySubject(`key_${i % 7}`))]),
      ),
    );
    await Promise.all(batches.map((batch) => recordUsage(ledger.db, eventsOnly(batch))));
    // Neighbouring batches overlap by half: 8 × 25 + 25 events in all.
    expect((await readSpent(ledger.db, [shared])).values().next().value).toBe(225n);
  });

  it('is atomic: a failure leaves no events, no quarantine and no numbers', async () => {
    const broken = event(2, 1n, [counter('policy')]);
    const usage = {
      events: [event(1, 1n, [counter('policy')])],
      refused: [
        {
          kind: 'event' as const,
          payload: new Uint8Array(1),
          reason: 'x',
          origin: undefined,
          principalId: undefined,
        },
      ],
      received: [range(newEpoch(), 1, 2)],
    };
    const failing = { ...broken, row: { ...broken.row, event_id: 'not a uuid' } };
    await expect(recordUsage(ledger.db, { ...usage, events: [...usage.events, failing] })).rejects.toThrow();
    for (const table of ['usage_events', 'spend_buckets', 'quarantined_usage', 'producers'] as const) {
      expect(await ledger.db.selectFrom(table).selectAll().execute()).toEqual([]);
    }
    await recordUsage(ledger.db, usage);
    expect(await sums()).toEqual({ events: 1n, cost: 1n, spent: 1n });
  });

  it('runs the last step in its transaction, with the new events', async () => {
    const [first, second] = [event(1, 1n, [counter('policy')]), event(2, 1n, [counter('policy')])];
    await recordUsage(ledger.db, eventsOnly([first]));
    const failing = recordUsage(ledger.db, eventsOnly([first, second]), new Date(), {
      lastStep: async () => {
        throw new Error('the last step failed');
      },
    });
    await expect(failing).rejects.toThrow('the last step failed');
    expect(await sums()).toEqual({ events: 1n, cost: 1n, spent: 1n });

    const seen: string[] = [];
    await recordUsage(ledger.db, eventsOnly([first, second]), new Date(), {
      lastStep: async (tx, newEvents) => {
        const { events } = await tx
          .selectFrom('usage_events')
          .select(sql<bigint>`count(*)`.as('events'))
          .executeTakeFirstOrThrow();
        seen.push(`${events} rows`, ...newEvents.map(({ row }) => row.event_id));
      },
    });
    expect(seen).toEqual(['2 rows', second.row.event_id]);
  });

  it('stores texts unchanged, whatever characters they contain', async () => {
    const text = `"quoted", {curly}, \\ back\\\\slashes, 'NULL', \n\t\r, ☃ 😀, NULL`;
    const bucket = { ...counter(`key:${text}`), policyId: text.replaceAll('/', '') };
    const one = event(1, 9n, [bucket], text);
    const row = {
      ...one.row,
      request_id: text,
      response_id: 'NULL',
      attribution: JSON.stringify({ user: text }),
    };
    await recordUsage(ledger.db, eventsOnly([{ ...one, row }]));
    const kept = await ledger.db.selectFrom('usage_events').selectAll().executeTakeFirstOrThrow();
    expect(kept).toMatchObject({
      principal_id: text,
      request_id: text,
      response_id: 'NULL',
      attribution: { user: text },
    });
    expect(await readSpend(ledger.db, bucket, text)).toMatchObject({ spent: 9n, principalSpent: 9n });
  });

  it('stores what the cost of an event depends on, beside events that have none', async () => {
    const details = { service_tier: 'priority', tool_uses: { '"a", {b} \\ NULL ☃': 2 }, unpriced: ['x'] };
    const events = [1, 2, 3].map((n) => {
      const { row, ...rest } = ledgerEvent(n);
      return { ...rest, row: { ...row, details: n === 2 ? JSON.stringify(details) : null } };
    });
    await recordUsage(ledger.db, eventsOnly(events));
    const rows = await ledger.db.selectFrom('usage_events').select('details').orderBy('event_id').execute();
    expect(rows.map((row) => row.details)).toEqual([null, details, null]);
  });
});

describe('received numbers', () => {
  it('arrive in any order, overlapping and repeated, and are acked up to the first missing one', async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    let state = seed;
    const random = (below: number) => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) & 0x7fffffff;
      return state % below;
    };
    const epoch = newEpoch();
    const received = new Set<number>();
    let acked = 0;
    for (let step = 0; step < 60; step++) {
      const ranges = Array.from({ length: 1 + random(3) }, () => range(epoch, 1 + random(60), 1 + random(8)));
      for (const { firstN, count } of ranges) {
        for (let n = Number(firstN); n < Number(firstN) + count; n++) received.add(n);
      }
      const { acks } = await recordUsage(ledger.db, rangesOnly(...ranges));
      let reached = 0;
      while (received.has(reached + 1)) reached++;
      expect(acks, `seed ${seed}, step ${step}`).toEqual([
        { producerId, epoch, shard: 0, n: BigInt(reached) },
      ]);
      expect(reached).toBeGreaterThanOrEqual(acked);
      acked = reached;
      const isGap = reached < Math.max(...received);
      expect((await shardRow(epoch)).gap_since !== null, `seed ${seed}, step ${step}`).toBe(isGap);
    }
    expect(await readAcks(ledger.db, producerId, [epoch, newEpoch()])).toEqual([
      { producerId, epoch, shard: 0, n: BigInt(acked) },
    ]);
  });

  it('are never acked beyond a missing one, also in a shard without an earlier gap', async () => {
    const epoch = newEpoch();
    const ackedBy = async (firstN: number, count: number) =>
      (await recordUsage(ledger.db, rangesOnly(range(epoch, firstN, count)))).acks.map(({ n }) => n);
    expect(await ackedBy(1, 3)).toEqual([3n]);
    expect(await ackedBy(4, 3)).toEqual([6n]);
    expect(await ackedBy(9, 2)).toEqual([6n]);
    expect((await shardRow(epoch)).gap_since).not.toBeNull();
    expect(await ackedBy(7, 2)).toEqual([10n]);
    expect((await shardRow(epoch)).gap_since).toBeNull();
    expect(await ackedBy(2, 2)).toEqual([10n]);
  });

  it('are acked beyond those that a restored ledger lost, to who was acked them before', async () => {
    const epoch = newEpoch();
    await recordUsage(ledger.db, rangesOnly(range(epoch, 201, 200), range(epoch, 501, 10)));
    const ackedAfter = async (n: bigint, shard = 0) =>
      (await readAcks(ledger.db, producerId, [epoch], [{ epoch, shard, n }])).map((ack) => ack.n);
    expect(await readAcks(ledger.db, producerId, [epoch])).toMatchObject([{ n: 0n }]);
    expect(await ackedAfter(200n)).toEqual([400n]);
    expect(await ackedAfter(350n)).toEqual([400n]);
    expect(await ackedAfter(500n)).toEqual([510n]);
    // Who still has the next one must send it; nothing is acked by the word of another shard or epoch.
    expect(await ackedAfter(199n)).toEqual([0n]);
    expect(await ackedAfter(400n)).toEqual([0n]);
    expect(await ackedAfter(510n)).toEqual([0n]);
    expect(await ackedAfter(200n, 1)).toEqual([0n]);
    expect(
      await readAcks(ledger.db, producerId, [epoch], [{ epoch: newEpoch(), shard: 0, n: 200n }]),
    ).toMatchObject([{ n: 0n }]);
    expect((await shardRow(epoch)).gap_since).not.toBeNull();
  });

  it('close an epoch when the last one arrives, declared before or after that', async () => {
    const [before, after, never] = [newEpoch(), newEpoch(), newEpoch()];
    const now = new Date();
    const close = (epoch: string, lastN: bigint[]) =>
      closeEpoch(ledger.db, { producerId, epoch, lastN, now });

    expect(await close(before, [3n, 0n, 0n, 2n])).toBe(false);
    await recordUsage(ledger.db, rangesOnly(range(before, 1, 3)));
    expect(await stateOf(before)).toBe('open');
    await recordUsage(ledger.db, rangesOnly(range(before, 1, 2, 3)));
    expect(await stateOf(before)).toBe('closed');
    expect(await close(before, [3n, 0n, 0n, 2n])).toBe(true);

    await recordUsage(ledger.db, rangesOnly(range(after, 2, 2)));
    expect(await close(after, [3n, 0n, 0n, 0n])).toBe(false);
    await recordUsage(ledger.db, rangesOnly(range(after, 1, 1)));
    expect(await stateOf(after)).toBe('closed');

    expect(await close(never, [0n, 0n, 0n, 0n])).toBe(true);
    expect(await stateOf(never)).toBe('closed');
  });

  it('close an epoch without waiting for the buckets that its leases hold', async () => {
    const [epoch, now] = [newEpoch(), new Date()];
    const bucket = { policyId: 'pol_lease', counterVersion: 1, subject: 'policy', windowStartMs: 0n };
    await insertPolicy(ledger.db, bucket.policyId, {
      ...{ window_kind: 'none', counter_scope: 'policy' },
      created_at: now,
    });
    await registerProducer(ledger.db, { producerId, epoch, name: '', now });
    const ask = { bucket, seq: 1n, returnedNanoUsd: 0n, wantNanoUsd: 10n, minimumNanoUsd: 10n };
    await answerLeaseCalls(ledger.db, { producerId, epoch, calls: [ask], now });
    await closeEpoch(ledger.db, { producerId, epoch, lastN: [1n, 0n, 0n, 0n], now });
    await ledger.db.transaction().execute(async (tx) => {
      await sql`SELECT FROM spend_buckets WHERE policy_id = 'pol_lease' FOR NO KEY UPDATE`.execute(tx);
      const recorded = recordUsage(ledger.db, rangesOnly(range(epoch, 1, 1)));
      expect(await Promise.race([recorded, untilLockWaits(ledger.db)])).toMatchObject({ closedEpochs: 1 });
    });
    expect(await stateOf(epoch)).toBe('closed');
  });

  it('close an epoch even if the last ones of its shards are committed at the same time', async () => {
    for (let round = 0; round < 15; round++) {
      const epoch = newEpoch();
      await Promise.all([
        closeEpoch(ledger.db, { producerId, epoch, lastN: [2n, 2n, 2n, 2n], now: new Date() }),
        ...[0, 1, 2, 3].map((shard) => recordUsage(ledger.db, rangesOnly(range(epoch, 1, 2, shard)))),
      ]);
      expect(await stateOf(epoch), `round ${round}`).toBe('closed');
    }
  });
});

it('is exact when connections break at any time and the outcome of a commit is unknown', async () => {
  const cutting = await startCuttingProxy(ledger.url);
  const killed = createDb(cutting.url, { applicationName: 'to be killed', onIdleError: () => {} });
  const epoch = newEpoch();
  let failures = 0;
  let repeated = 0;
  let done = false;
  const killer = (async () => {
    while (!done) {
      await sql`
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'to be killed' AND datname = current_database()
          AND (query ILIKE 'commit%' OR random() < 0.1) AND state <> 'idle'`.execute(ledger.db);
      await sleep(5);
    }
  })();
  const messages = 50;
  for (let message = 0; message < messages; message++) {
    const usage = {
      events: Array.from({ length: 20 }, (_, at) => event(message * 20 + at, 1n, [counter('policy')])),
      refused: [],
      received: [range(epoch, message * 20 + 1, 20)],
    };
    // Like a message that is delivered again until it is acknowledged.
    for (;;) {
      try {
        const { acks, newEvents } = await recordUsage(killed, usage);
        expect(acks[0]?.n).toBe(BigInt(message * 20 + 20));
        if (newEvents === 0) repeated++;
        break;
      } catch {
        failures++;
      }
    }
  }
  done = true;
  await killer;
  await killed.destroy();
  await cutting.close();
  // Some failed after their commit, some before.
  expect(repeated).toBeGreaterThan(5);
  expect(failures).toBeGreaterThan(repeated);
  expect(await sums()).toEqual({ events: 1_000n, cost: 1_000n, spent: 1_000n });
});

/** A TCP proxy to Postgres that cuts the connection before the response to every third commit. */
async function startCuttingProxy(databaseUrl: string) {
  const target = new URL(databaseUrl);
  let commits = 0;
  const sockets = new Set<Socket>();
  const server = createServer((client) => {
    const upstream = connect(Number(target.port || 5432), target.hostname);
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        client.destroy();
        // Not destroyed: what was sent must still arrive.
        upstream.end();
        sockets.delete(socket);
      });
    }
    let isCut = false;
    client.on('data', (bytes) => {
      upstream.write(bytes);
      if (/commit/i.test(bytes.toString('latin1')) && ++commits % 3 === 0) isCut = true;
    });
    upstream.on('data', (bytes) => {
      if (isCut) client.destroy();
      else client.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = new URL(databaseUrl);
  url.hostname = '127.0.0.1';
  url.port = String((server.address() as AddressInfo).port);
  return {
    url: url.href,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
