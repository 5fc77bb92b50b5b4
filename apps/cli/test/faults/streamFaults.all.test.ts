import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Cluster, startCluster } from './cluster.ts';
import type { FaultyApp } from './faultyApp.ts';
import { createLoad, heavy } from './load.ts';
import { expectReconciled } from './reconciliation.ts';
import { messagesOf } from './streamMessages.ts';

const SEED = 20_261_121;
const SMALL_SPOOL_BYTES = 1_048_576;

let cluster: Cluster;
let proxy: FaultyApp;
let worker: FaultyApp;

beforeAll(async () => {
  cluster = await startCluster();
  [proxy, worker] = [cluster.proxies[0] as FaultyApp, cluster.workers[0] as FaultyApp];
});
afterAll(() => cluster?.close());
beforeEach(() => cluster.restore());

describe('NATS', () => {
  it('4: while it is down, usage waits in the spool; once that is full, requests are refused; nothing is lost', async () => {
    await proxy.stop();
    await proxy.start({ SPOOL_MAX_BYTES: String(SMALL_SPOOL_BYTES) });
    const caller = await cluster.caller('row-4');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy], nextRequest: heavy });
    await cluster.nats.kill();
    // The first refusals may be for want of the room that requests in flight have reserved.
    const isFull = () => load.sent.length > 0 && load.sent.slice(-50).every(({ end }) => end === 'refused');
    while (load.sent.length < 2_000 && !isFull()) await load.send(50);
    const served = load.sent.filter(({ end }) => end === 'whole').length;
    expect(served).toBeGreaterThan(50);
    // The spool is full: each request is refused before it costs anything.
    const [before, sentBefore] = [cluster.vendor.requests.length, load.sent.length];
    await load.send(50);
    const refused = load.sent.slice(sentBefore);
    expect(refused.map(({ status, code }) => [status, code])).toEqual(Array(50).fill([503, 'usage_backlog']));
    expect(cluster.vendor.requests).toHaveLength(before);

    await cluster.nats.start();
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 4');
    expect(figures.exactRows).toBe(served);
    const after = createLoad({ caller, seed: SEED, series: 'b', proxies: [proxy] });
    await after.send(20);
    expect(after.sent.map(({ end }) => end)).toEqual(Array(20).fill('whole'));
    await proxy.stop();
    await proxy.start({ SPOOL_MAX_BYTES: String(2 ** 30) });
  });

  it('5: after its stream was deleted, the spools send everything again', async () => {
    const caller = await cluster.caller('row-5');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
    await load.send(50);
    // No proxy sends any more events, which would show the missing numbers.
    for (const sentLater of [0, 100]) {
      await worker.stop();
      await load.send(100);
      expect(await messagesOf(cluster.nats, load.sent.slice(-100))).not.toEqual([]);
      await cluster.nats.deleteStream();
      await load.send(sentLater);
      await worker.start();
      const figures = await expectReconciled(cluster, caller, load.sent, `row 5, ${sentLater} sent later`);
      expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0 });
    }
    expect(load.sent).toHaveLength(350);
  });

  it('6: killed and restored to an older state, loses nothing for the ledger', async () => {
    const caller = await cluster.caller('row-6');
    const load = createLoad({ caller, seed: SEED, proxies: [proxy] });
    await worker.stop();
    await load.send(50);
    const older = await cluster.nats.copyStore();
    const running = load.start();
    await load.send(150);
    const { lastSequence } = await cluster.nats.state();
    await cluster.nats.kill();
    await load.send(50);
    // The proxy is frozen, so that it can't resend the lost messages before the loss was seen.
    proxy.freeze();
    await cluster.nats.start(older);
    expect((await cluster.nats.state()).lastSequence).toBeLessThan(lastSequence);
    proxy.thaw();
    await running.stop();
    await worker.start();
    const figures = await expectReconciled(cluster, caller, load.sent, 'row 6');
    expect(figures).toMatchObject({ exactRows: load.sent.length, estimatedRows: 0 });
  });
});
