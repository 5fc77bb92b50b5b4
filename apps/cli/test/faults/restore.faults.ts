import { USAGE_SHARDS } from '@weighbridge/contracts';
import { eventually } from '@weighbridge/testing';
import { sql } from 'kysely';
import { expect, it } from 'vitest';
import { manage } from '../mainJob.ts';
import { budgetedCaller } from './budgetedCaller.ts';
import { type Caller, type Cluster, startCluster } from './cluster.ts';
import { createLoad } from './load.ts';
import { longForm } from './longForm.ts';
import { expectReconciled } from './reconciliation.ts';

const AT_ONCE = 4;
const REQUESTS = 200;

it('restored to a point in time, the ledger has what was recorded until then and what was in spools, and its counters agree', async () => {
  const { seed, log } = longForm(process.env);
  const cluster = await startCluster({ ownPostgres: true, archivesPostgres: true });
  try {
    await drill(cluster, seed, log);
  } finally {
    await cluster.close();
  }
});

type Load = ReturnType<typeof createLoad>;

/**
 * Two callers whose usage is numbered together, each with one request in the ledger: what the restored ledger lost of one lies before
 * what the spool has of the other.
 */
async function twoOfOneShard(
  cluster: Cluster,
  loadOf: (caller: Caller) => Load,
): Promise<[[Caller, Load], [Caller, Load]]> {
  const byShard = new Map<number, [Caller, Load]>();
  for (let number = 0; number <= USAGE_SHARDS; number++) {
    const caller = await budgetedCaller(cluster, `later-${number}`);
    const load = loadOf(caller);
    await load.send(1);
    await cluster.settled();
    const { shard } = await cluster.db
      .selectFrom('usage_events')
      .select('shard')
      .where('key_id', '=', caller.keyId)
      .executeTakeFirstOrThrow();
    if (shard === null) throw new Error('usage without a shard');
    const other = byShard.get(shard);
    if (other) return [other, [caller, load]];
    byShard.set(shard, [caller, load]);
  }
  throw new Error('there are more shards');
}

async function drill(
  cluster: Cluster,
  seed: number,
  log: (kind: string, text: string) => void,
): Promise<void> {
  const { postgres, proxies, workers } = cluster;
  if (!postgres) throw new Error('a cluster with its own Postgres');
  const loadOf = (caller: Caller) => createLoad({ caller, seed, proxies, atOnce: AT_ONCE });
  const kept = await budgetedCaller(cluster, 'kept');
  const keptLoad = loadOf(kept);
  const [[lost, lostLoad], [spooled, spooledLoad]] = await twoOfOneShard(cluster, loadOf);

  const running = keptLoad.start();
  await eventually(() => expect(keptLoad.sent.length).toBeGreaterThan(REQUESTS), { timeoutMs: 120_000 });
  await postgres.backUp();
  log('backup', `made under load, after ${keptLoad.sent.length} requests`);
  const before = keptLoad.sent.length;
  await eventually(() => expect(keptLoad.sent.length).toBeGreaterThan(before + REQUESTS), {
    timeoutMs: 120_000,
  });
  await running.stop();
  await cluster.settled();
  const { rows } = await sql<{ now: Date }>`SELECT clock_timestamp() AS now`.execute(cluster.db);
  const moment = rows[0]?.now ?? new Date();
  log('moment', `${moment.toISOString()}, after ${keptLoad.sent.length} requests`);

  await lostLoad.send(REQUESTS);
  await cluster.settled();
  for (const worker of workers) await worker.stop();
  await cluster.nats.kill();
  await spooledLoad.send(REQUESTS);
  log(
    'disaster',
    `${lostLoad.sent.length - 1} requests recorded later, ${spooledLoad.sent.length - 1} in spools only`,
  );

  for (const app of cluster.controlPlanes) await app.stop();
  await postgres.restoreTo(moment);
  log('restored', moment.toISOString());
  await cluster.nats.start();
  for (const app of [...cluster.controlPlanes, ...workers]) await app.start();
  await cluster.restore();
  // As the docs say of a restored dump.
  await sql`ANALYZE`.execute(cluster.db);

  for (const [caller, load] of [
    [kept, keptLoad],
    [spooled, spooledLoad],
  ] as const) {
    const figures = await expectReconciled(cluster, caller, load.sent, caller.name);
    expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0, lost: 0n });
  }
  const { body } = await manage(cluster, 'GET', `/api/v1/requests?key_id=${lost.keyId}&page_size=500`);
  expect(body.data).toHaveLength(1);
  const rebuild = await manage(cluster, 'POST', '/api/v1/ledger/rebuild', { body: { apply: false } });
  expect(rebuild.body).toMatchObject({ differing: [] });

  // It goes on: new keys, new requests, and counters that count them.
  const later = await budgetedCaller(cluster, 'later');
  const laterLoad = loadOf(later);
  await laterLoad.send(REQUESTS);
  const figures = await expectReconciled(cluster, later, laterLoad.sent, later.name);
  expect(figures).toMatchObject({ exactRows: laterLoad.sent.length, estimatedRows: 0, lost: 0n });
  log(
    'done',
    `${keptLoad.sent.length} kept, ${spooledLoad.sent.length - 1} from spools, ${lostLoad.sent.length - 1} gone as documented`,
  );
}
