import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { seededRandom } from '@weighbridge/domain';
import { eventually, startProcess } from '@weighbridge/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { decoded, newPlace, placeIn, SHARDS, type SpoolPlace, unackedEvents } from './spoolFixture.ts';

const WRITER = fileURLToPath(new URL('spoolWriter.mjs', import.meta.url));
const places: SpoolPlace[] = [];
afterEach(() => {
  for (const place of places.splice(0)) place.remove();
});

async function startWriter(place: SpoolPlace) {
  const log = join(place.dir, '..', 'log');
  const writer = await startProcess({ command: process.execPath, args: [WRITER, place.dir, log] });
  const lines = () => readFileSync(log, 'utf8').split('\n').slice(0, -1);
  await eventually(() => expect(lines().length).toBeGreaterThan(100));
  return { writer, lines };
}

describe('a process that is killed while it writes to a spool', () => {
  it.each([1, 2, 3, 4])(
    'leaves every attempt once, at its cost or its reservation (seed %i)',
    async (seed) => {
      const place = newPlace();
      places.push(place);
      const { writer, lines } = await startWriter(place);
      await sleep(seededRandom(seed)() * 300);
      await expect(place.open()).rejects.toThrow(/Another process uses the spool.*SPOOL_DIR/);
      await writer.stop('SIGKILL');

      const spool = await place.open();
      const [epoch, ...others] = await spool.takeOrphanedEpochs();
      if (!epoch) throw new Error('no epoch is orphaned');
      const printed = lines().map((line) => line.split(' '));
      expect([others, printed[0]]).toEqual([[], ['epoch', epoch.epoch]]);
      const open = new Map<string, string>();
      const settled = new Map<string, { id: string; cost: string }>();
      const acked = new Map<string, bigint>();
      for (const [what, id = '', shard = '', cost = '', n = ''] of printed) {
        if (what === 'begun') open.set(id, cost);
        if (what === 'acking') acked.set(id, BigInt(shard));
        if (what !== 'settled') continue;
        open.delete(id);
        settled.set(`${shard}/${n}`, { id, cost });
      }
      let unprinted = 0;
      let read = 0;
      for (const shard of SHARDS) {
        expect(epoch.ackedN(shard) <= (acked.get(String(shard)) ?? 0n)).toBe(true);
        let n = epoch.ackedN(shard);
        for (const event of await unackedEvents(epoch, shard, 50_000)) {
          n++;
          read++;
          const { eventId, costNanoUsd } = decoded(event);
          expect(event.n).toBe(n);
          const known = settled.get(`${shard}/${n}`);
          if (known) expect(known).toEqual({ id: eventId, cost: String(costNanoUsd) });
          // The last turn may be written but not printed: ends, at another cost, and begins.
          else if (open.get(eventId) !== String(costNanoUsd)) unprinted++;
          if (!known) open.delete(eventId);
        }
        expect(n).toBe(epoch.lastN(shard));
      }
      expect([...open.keys()]).toEqual([]);
      expect(unprinted).toBeLessThanOrEqual(4);
      expect(read).toBeGreaterThan(50);
      await spool.close();
    },
  );
});

describe('sibling spools', () => {
  it('are adopted when their process was killed, never while it runs, and it can start again', async () => {
    const first = newPlace();
    places.push(first);
    const second = placeIn(join(first.dir, '..'), 'second');
    const { writer } = await startWriter(second);
    const spool = await first.open();
    expect(await spool.takeOrphanedEpochs()).toEqual([]);
    await writer.stop('SIGKILL');

    const before = spool.usedBytes;
    const [epoch] = await spool.takeOrphanedEpochs();
    expect(spool.usedBytes).toBe(before);
    const again = await second.open();
    expect(epoch?.producerId).toBe(again.producerId);
    expect(await again.takeOrphanedEpochs()).toEqual([]);
    await again.close();
    await spool.close();

    // The adoption is permanent: the next start of the adopting spool has the epoch.
    const third = await first.open();
    const orphans = await third.takeOrphanedEpochs();
    const same = orphans.find((one) => one.epoch === epoch?.epoch);
    expect([same?.producerId, same?.lastN(0)]).toEqual([again.producerId, epoch?.lastN(0)]);
    for (const one of orphans) await one.remove();
    expect(await third.takeOrphanedEpochs()).toEqual([]);
    await third.close();
  });
});
