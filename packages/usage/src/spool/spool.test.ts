import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import {
  decoded,
  filesOf,
  headOf,
  newPlace,
  placeIn,
  type SpoolPlace,
  tailOf,
  unackedEvents,
} from '../../test/spoolFixture.ts';
import { nodeFileSystem } from './fileSystem.ts';
import type { Spool } from './types.ts';

const places: SpoolPlace[] = [];
afterEach(() => {
  for (const place of places.splice(0)) place.remove();
});

function newTrackedPlace(): SpoolPlace {
  const place = newPlace();
  places.push(place);
  return place;
}

function record(spool: Spool, count: number, padding = 100): void {
  for (let index = 0; index < count; index++) {
    const eventId = `event-${index}`;
    const head = headOf(eventId, padding);
    spool.begin({ eventId, shard: index % 2, reserveNanoUsd: 9n, head }).settle(tailOf(BigInt(index)));
    spool.flush();
  }
}

describe("a spool's key", () => {
  const keyFile = (place: SpoolPlace) => join(place.dir, 'producer.key');
  const OLD_ID = '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60';

  it('is made once, readable by its owner only, and signs for its own and its earlier epochs', async () => {
    const place = newTrackedPlace();
    const first = await place.open();
    record(first, 2);
    expect(first.own.key?.producerId).toBe(first.producerId);
    expect(statSync(keyFile(place)).mode & 0o777).toBe(0o600);
    await first.close();
    const second = await place.open();
    const [epoch] = await second.takeOrphanedEpochs();
    expect([second.own.key?.producerId, epoch?.key?.producerId]).toEqual([
      first.producerId,
      first.producerId,
    ]);
    await second.close();
  });

  it('goes with an epoch that a sibling adopts, and again when that one is adopted', async () => {
    const first = newTrackedPlace();
    const dead = await first.open();
    record(dead, 2);
    await dead.close();
    for (const name of ['second', 'third']) {
      const spool = await placeIn(join(first.dir, '..'), name).open();
      const orphans = await spool.takeOrphanedEpochs();
      const adopted = orphans.find(({ epoch }) => epoch === dead.epoch);
      expect([adopted?.producerId, adopted?.key?.producerId]).toEqual([dead.producerId, dead.producerId]);
      await spool.close();
      rmSync(keyFile(first), { force: true });
    }
  });

  it('is found beside an epoch that an older release adopted without it', async () => {
    const first = newTrackedPlace();
    const dead = await first.open();
    record(dead, 2);
    await dead.close();
    const second = placeIn(join(first.dir, '..'), 'second');
    await (await second.open()).close();
    renameSync(join(first.dir, dead.epoch), join(second.dir, `${dead.epoch}@${dead.producerId}`));
    const spool = await second.open();
    const orphans = await spool.takeOrphanedEpochs();
    expect(orphans.find(({ epoch }) => epoch === dead.epoch)?.key?.producerId).toBe(dead.producerId);
    await spool.close();
  });

  it('is new, with a new producer, where it is missing or unreadable; earlier epochs keep their producer', async () => {
    const place = newTrackedPlace();
    let spool = await place.open();
    for (const lose of [() => rmSync(keyFile(place)), () => writeFileSync(keyFile(place), 'broken')]) {
      const { producerId, epoch } = spool;
      record(spool, 2);
      await spool.close({ suspend: true });
      lose();
      spool = await place.open();
      expect(spool.producerId).not.toBe(producerId);
      const orphans = await spool.takeOrphanedEpochs();
      expect(orphans.find((one) => one.epoch === epoch)).toMatchObject({ producerId, key: undefined });
    }
    await spool.close();
  });

  it("replaces the id of an older release's spool", async () => {
    const place = newTrackedPlace();
    await (await place.open()).close();
    rmSync(keyFile(place));
    writeFileSync(join(place.dir, 'producer'), `${OLD_ID}\n`);
    const spool = await place.open();
    expect(spool.producerId).not.toBe(OLD_ID);
    expect(readFileSync(join(place.dir, 'producer'), 'utf8').trim()).toBe(spool.producerId);
    await spool.close();
  });
});

describe('a spool', () => {
  it('settles an attempt once, and begins one attempt per event id', async () => {
    const spool = await newTrackedPlace().open();
    const intent = { eventId: 'a', shard: 0, reserveNanoUsd: 1n, head: headOf('a') };
    const attempt = spool.begin(intent);
    expect(() => spool.begin(intent)).toThrow('has already begun');
    attempt.settle(tailOf(1n));
    expect(() => attempt.settle(tailOf(1n))).toThrow('is already settled');
    expect(() => spool.begin({ ...intent, eventId: 'b', shard: 4 })).toThrow('shard 4 does not exist');
    await spool.close();
    expect(() => spool.begin(intent)).toThrow('closed');
  });

  it('refuses an event that is too large for a record, and accepts the largest that fits', async () => {
    const spool = await newTrackedPlace().open();
    const intent = { eventId: 'a', shard: 0, reserveNanoUsd: 1n };
    expect(() => spool.begin({ ...intent, head: new Uint8Array(1024 * 1024) })).toThrow('too large');
    const head = new Uint8Array(1024 * 1024 - 5_000);
    const largest = spool.begin({ ...intent, head });
    expect(() => largest.settle(new Uint8Array(5_000))).toThrow('too large');
    largest.settle(new Uint8Array(1_024));
    await spool.durable();
    const [event] = await spool.own.read(0, 1n, 1);
    expect(event?.bytes.length).toBe(head.length + 1_024);
    await spool.close();
  });

  it('keeps its producer and begins a new epoch at each start; a removed epoch leaves no folder', async () => {
    const place = newTrackedPlace();
    const first = await place.open();
    await first.own.remove();
    await first.close();
    expect(existsSync(join(place.dir, first.epoch))).toBe(false);
    const second = await place.open();
    expect(second.producerId).toBe(first.producerId);
    expect(second.epoch).not.toBe(first.epoch);
    expect(await second.takeOrphanedEpochs()).toEqual([]);
    await second.close();
    const third = await place.open();
    // It has no events, but the control plane waits for its end.
    const [left] = await third.takeOrphanedEpochs();
    expect([left?.epoch, left?.lastN(0)]).toEqual([second.epoch, 0n]);
    await left?.remove();
    expect(existsSync(join(place.dir, second.epoch))).toBe(false);
    await third.close();
  });

  it('keeps the latest bytes of each lease through rotations and a crash, and drops deleted ones', async () => {
    const place = newTrackedPlace();
    const spool = await place.open({ segmentBytes: 2_000 });
    for (let index = 0; index < 100; index++) {
      spool.writeLease('a', Buffer.from(`state ${index}`));
      if (index < 50) spool.writeLease('b', index % 2 === 0 ? Buffer.from('held') : new Uint8Array());
      record(spool, 2);
    }
    for (const shard of [0, 1]) spool.own.ack(shard, 100n);
    expect(filesOf(place, spool.epoch).length).toBeLessThan(4);
    const crashed = place.crashed();
    places.push(crashed);
    const next = await crashed.open();
    const [left] = await next.takeOrphanedEpochs();
    for (const epoch of [spool.own, left]) {
      expect([...(epoch?.leases() ?? [])].map(([key, bytes]) => [key, String(bytes)])).toEqual([
        ['a', 'state 99'],
      ]);
    }
    await next.close();
    await spool.close();
  });

  it('reads the intact records of a damaged file, and counts the damage', async () => {
    const place = newTrackedPlace();
    const spool = await place.open();
    record(spool, 100);
    await spool.close();
    const [file] = filesOf(place, spool.epoch);
    if (!file) throw new Error('the epoch has no file');
    const bytes = readFileSync(file.path);
    const at = bytes.lastIndexOf('event-40');
    bytes.fill(0xff, at - 20, at + 20);
    writeFileSync(file.path, bytes);
    const next = await place.open();
    const [left] = await next.takeOrphanedEpochs();
    expect(next.damagedRecords).toBe(1);
    const events = left ? await unackedEvents(left, 0) : [];
    // Its INTENT is intact, so recovery settles it under a new number.
    expect(events.map(({ n }) => Number(n))).toEqual(
      Array.from({ length: 51 }, (_, index) => index + 1).filter((n) => n !== 21),
    );
    expect(events.at(-1) && decoded(events.at(-1) as never)).toMatchObject({
      eventId: 'event-40',
      costNanoUsd: 9n,
    });
    expect((await left?.read(0, 1n, 1_000_000))?.at(-1)?.n).toBe(20n);
    expect((await left?.read(0, 21n, 1_000_000))?.at(0)?.n).toBe(22n);
    await next.close();
  });

  it.each([4, 23])(
    'without any intact header, an epoch of %i shards has those that its records name',
    async (shards) => {
      const place = newTrackedPlace();
      const spool = await place.open({ shards });
      for (let shard = 0; shard < shards; shard++) {
        const eventId = `event-${shard}`;
        const attempt = spool.begin({ eventId, shard, reserveNanoUsd: 9n, head: headOf(eventId) });
        // The last is known by its INTENT alone.
        if (shard < shards - 1) attempt.settle(tailOf(1n));
      }
      spool.flush();
      await spool.close();
      const [file] = filesOf(place, spool.epoch);
      if (!file) throw new Error('the epoch has no file');
      const bytes = readFileSync(file.path);
      bytes.fill(0xff, 0, 20);
      writeFileSync(file.path, bytes);
      const next = await place.open();
      const [left] = await next.takeOrphanedEpochs();
      expect(left?.shards).toBe(shards);
      for (let shard = 0; shard < shards; shard++) {
        expect(left && (await unackedEvents(left, shard)).map(({ n }) => n)).toEqual([1n]);
      }
      await next.close();
    },
  );

  it('reads each file about once, however small the requested parts are', async () => {
    let readBytes = 0;
    const files = {
      ...nodeFileSystem,
      async openToRead(path: string) {
        const file = await nodeFileSystem.openToRead(path);
        const read = file.read.bind(file) as (...args: unknown[]) => Promise<{ bytesRead: number }>;
        return Object.assign(file, {
          async read(...args: unknown[]) {
            const result = await read(...args);
            readBytes += result.bytesRead;
            return result;
          },
        });
      },
    };
    const spool = await newTrackedPlace().open({ files, segmentBytes: 2 * 1024 * 1024 });
    record(spool, 5_000, 1_000);
    const partBytes = 200_000;
    expect((await unackedEvents(spool.own, 0, partBytes)).length).toBe(2_500);
    // Each read continues to the end of a chunk.
    expect(readBytes).toBeLessThan(3 * spool.usedBytes);
    await spool.close();
  });

  it('deletes files as the ledger acks them, even while another shard waits', async () => {
    const place = newTrackedPlace();
    const spool = await place.open({ segmentBytes: 10_000 });
    spool.begin({ eventId: 'waits', shard: 3, reserveNanoUsd: 1n, head: headOf('w') }).settle(tailOf(1n));
    const open = spool.begin({ eventId: 'open', shard: 2, reserveNanoUsd: 1n, head: headOf('o') });
    record(spool, 400);
    expect(filesOf(place, spool.epoch).length).toBeGreaterThan(5);
    spool.own.ack(0, 200n);
    spool.own.ack(1, 10_000n);
    expect(spool.own.ackedN(1)).toBe(200n);
    expect(filesOf(place, spool.epoch).length).toBe(2);
    expect((await spool.own.read(3, 1n, 1)).length).toBe(1);
    open.settle(tailOf(1n));
    await spool.durable();
    spool.own.ack(3, 1n);
    spool.own.ack(2, 1n);
    expect(filesOf(place, spool.epoch).length).toBe(1);
    expect(spool.usedBytes).toBe(filesOf(place, spool.epoch)[0]?.bytes);
    await spool.close();
  });
});
