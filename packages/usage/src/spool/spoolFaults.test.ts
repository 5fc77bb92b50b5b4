import { truncateSync } from 'node:fs';
import { afterEach, describe, expect, it } from 'vitest';
import {
  decoded,
  filesOf,
  headOf,
  newPlace,
  SHARDS,
  type SpoolPlace,
  seeded,
  tailOf,
  unackedEvents,
} from '../../test/spoolFixture.ts';
import type { AttemptRecord } from './attemptRecord.ts';
import { type FileSystem, nodeFileSystem } from './fileSystem.ts';
import { SpoolFullError } from './types.ts';

const places: SpoolPlace[] = [];
afterEach(() => {
  for (const place of places.splice(0)) place.remove();
});

function newTrackedPlace(): SpoolPlace {
  const place = newPlace();
  places.push(place);
  return place;
}

type Call = 'create' | 'write' | 'truncate' | 'close' | 'sync' | 'syncFolder' | 'remove' | 'makeFolder';

/** The real file system; `fails` selects the calls that fail, and a failed write may have written a part. */
function faultyFiles(
  fails: (call: Call) => boolean,
  partOf: (bytes: number) => number = () => 0,
): FileSystem {
  const failure = (call: Call) =>
    Object.assign(new Error(`${call} failed`), { code: call === 'write' ? 'ENOSPC' : 'EIO' });
  const check = (call: Call) => {
    if (fails(call)) throw failure(call);
  };
  return {
    ...nodeFileSystem,
    makeFolder(path) {
      check('makeFolder');
      nodeFileSystem.makeFolder(path);
    },
    create(path) {
      check('create');
      return nodeFileSystem.create(path);
    },
    truncate(file, bytes) {
      check('truncate');
      nodeFileSystem.truncate(file, bytes);
    },
    close(file) {
      nodeFileSystem.close(file);
      check('close');
    },
    remove(path) {
      check('remove');
      nodeFileSystem.remove(path);
    },
    async sync(file) {
      check('sync');
      await nodeFileSystem.sync(file);
    },
    async syncFolder(path) {
      check('syncFolder');
      await nodeFileSystem.syncFolder(path);
    },
    write(file, bytes, from, position) {
      if (!fails('write')) return nodeFileSystem.write(file, bytes, from, position);
      const part = bytes.subarray(0, from + partOf(bytes.length - from));
      if (part.length > from) nodeFileSystem.write(file, part, from, position);
      throw failure('write');
    },
  };
}

describe('a spool on a failing disk', () => {
  it.each(Array.from({ length: 8 }, (_, run) => run + 1))(
    'loses nothing that it accepted, and accepts nothing that it loses (seed %i)',
    async (seed) => {
      const random = seeded(seed);
      let isFailing = false;
      let nowMs = 1_000_000;
      let operations = 0;
      const files = faultyFiles(
        () => {
          operations++;
          return isFailing && random() < 0.3;
        },
        (bytes) => Math.floor(random() * (bytes + 1)),
      );
      const place = newTrackedPlace();
      const sync = seed % 2 === 0 ? 'disk' : 'process';
      const spool = await place.open({ files, segmentBytes: 3_000, sync, now: () => new Date(nowMs) });
      const open = new Map<string, AttemptRecord>();
      const settled = SHARDS.map(() => [] as { eventId: string; cost: bigint }[]);
      const costs = new Map<string, bigint>();
      spool.onSettled((event) => {
        const { eventId } = decoded(event);
        settled[event.shard]?.push({ eventId, cost: costs.get(eventId) ?? -1n });
        open.delete(eventId);
        expect(event.n).toBe(BigInt(settled[event.shard]?.length ?? 0));
      });
      let turn = { begun: [] as AttemptRecord[], ending: new Set<string>() };
      let refused = 0;
      /** A SETTLE that was alone could not be written at once: whoever asks in this turn is told of a failure. */
      let hasTurnFailed = false;
      const write = async () => {
        const { begun, ending } = turn;
        const before = open.size;
        spool.flush();
        const ended = before - open.size;
        const isWritten = ended === ending.size && spool.openAttempts === open.size + begun.length;
        // A turn is written completely or not at all.
        expect([spool.openAttempts, ended]).toEqual(
          isWritten ? [before + begun.length - ending.size, ending.size] : [before, 0],
        );
        if (isWritten) for (const attempt of begun) open.set(attempt.eventId, attempt);
        if (!isWritten) refused++;
        turn = { begun: [], ending: new Set() };
        const { outcome } = await (spool.durable() ?? Promise.resolve()).then(
          () => ({ outcome: 'written' }),
          () => ({ outcome: 'failed' }),
        );
        if (sync === 'process') expect(outcome).toBe(isWritten && !hasTurnFailed ? 'written' : 'failed');
        hasTurnFailed = false;
      };
      for (let step = 0; step < 500; step++) {
        isFailing = random() < 0.5;
        nowMs += Math.floor(random() * 6_000);
        const shard = Math.floor(random() * 4);
        const others = [...open.values()].filter(({ eventId }) => !turn.ending.has(eventId));
        const attempt = others[Math.floor(random() * others.length)];
        try {
          if (random() < 0.5 || !attempt) {
            const eventId = `event-${step}`;
            const head = headOf(eventId, Math.floor(random() * 400));
            turn.begun.push(spool.begin({ eventId, shard, reserveNanoUsd: BigInt(step), head }));
          } else {
            const { eventId } = attempt;
            turn.ending.add(eventId);
            const before = operations;
            costs.set(eventId, BigInt(step));
            attempt.settle(tailOf(BigInt(step)));
            if (operations > before) {
              turn.ending.delete(eventId);
              hasTurnFailed ||= open.has(eventId);
            }
          }
        } catch (error) {
          expect(String(error)).toMatch(/waiting to retry/);
        }
        if (random() < 0.4) await write();
        if (random() > 0.1) continue;
        await write();
        spool.own.ack(shard, spool.own.ackedN(shard) + 2n);
      }
      await write();
      expect(refused).toBeGreaterThan(0);
      const crashed = place.crashed();
      places.push(crashed);
      for (const shard of SHARDS) await expectEvents(await unackedEvents(spool.own, shard), settled[shard]);
      isFailing = false;
      await spool.close();

      const next = await crashed.open();
      const [epoch] = await next.takeOrphanedEpochs();
      for (const shard of SHARDS) {
        const events = epoch ? await unackedEvents(epoch, shard) : [];
        const ended = BigInt(settled[shard]?.length ?? 0);
        await expectEvents(
          events.filter(({ n }) => n <= ended),
          settled[shard],
        );
        expect(events.at(-1)?.n ?? epoch?.ackedN(shard)).toBe(epoch?.lastN(shard));
        expect(new Set(events.map((event) => decoded(event).eventId)).size).toBe(events.length);
        for (const event of events) {
          if (event.n <= ended) continue;
          const { eventId, costNanoUsd } = decoded(event);
          // Its reservation. INTENTs that reached the disk in a failed write may be settled too.
          expect(costNanoUsd).toBe(BigInt(eventId.slice('event-'.length)));
          open.delete(eventId);
        }
      }
      expect([...open.keys()]).toEqual([]);
      await next.close();
    },
  );

  async function expectEvents(
    events: readonly { n: bigint; bytes: Uint8Array; shard: number }[],
    settled: readonly { eventId: string; cost: bigint }[] = [],
  ) {
    for (const event of events) {
      const known = settled[Number(event.n) - 1];
      const { eventId, costNanoUsd } = decoded(event);
      expect([eventId, costNanoUsd]).toEqual([known?.eventId, known?.cost]);
    }
    const first = settled.length - events.length;
    expect(events.map(({ n }) => n)).toEqual(events.map((_, index) => BigInt(first + index + 1)));
  }

  it.each(['create', 'write', 'makeFolder'] as const)(
    'refuses to begin while %s fails, retries only now and then, and recovers once it works',
    async (broken) => {
      let isFailing = false;
      let calls = 0;
      let nowMs = 0;
      const files = faultyFiles((call) => {
        calls++;
        return isFailing && (call === broken || call === 'write');
      });
      const spool = await newTrackedPlace().open({ files, now: () => new Date(nowMs) });
      isFailing = true;
      const begin = (eventId: string) =>
        spool.begin({ eventId, shard: 1, reserveNanoUsd: 1n, head: headOf(eventId) });
      begin('first');
      await expect(spool.durable()).rejects.toThrow(/failed/);
      calls = 0;
      for (let tries = 0; tries < 100; tries++)
        expect(() => begin(`try-${tries}`)).toThrow(/waiting to retry/);
      expect([calls, spool.hasRoom(100)]).toEqual([0, false]);
      // For a minute, at each request that may try: however long a disk was full, space is found at once when it is freed.
      for (const endMs = nowMs + 60_000; nowMs < endMs; nowMs++) {
        if (!spool.hasRoom(100)) continue;
        begin(`after-${nowMs}-ms`);
        await expect(spool.durable()).rejects.toThrow(/failed/);
      }
      expect(calls).toBeGreaterThan(0);
      isFailing = false;
      nowMs += 250;
      expect(spool.hasRoom(100)).toBe(true);
      begin('later').settle(tailOf(3n));
      await spool.durable();
      expect((await unackedEvents(spool.own, 1)).map((event) => decoded(event).eventId)).toEqual(['later']);
      await spool.close();
    },
  );

  it('ignores an end that reached the disk in a failed write, once another has its number', async () => {
    const broken = new Set<Call>();
    let nowMs = 0;
    const files = faultyFiles(
      (call) => broken.has(call),
      (bytes) => bytes,
    );
    const place = newTrackedPlace();
    const spool = await place.open({ files, now: () => new Date(nowMs) });
    const begin = (eventId: string) =>
      spool.begin({ eventId, shard: 0, reserveNanoUsd: 5n, head: headOf(eventId) });
    const [first, second] = [begin('first'), begin('second')];
    await spool.durable();
    for (const call of ['write', 'truncate', 'create'] as const) broken.add(call);
    const settled: bigint[] = [];
    spool.onSettled(({ n }) => settled.push(n));
    first.settle(tailOf(1n));
    await expect(spool.durable()).rejects.toThrow('create failed');
    broken.clear();
    nowMs += 60_000;
    expect(settled).toEqual([]);
    second.settle(tailOf(2n));
    await spool.durable();
    expect(settled).toEqual([1n]);
    const crashed = place.crashed();
    places.push(crashed);
    await spool.close();
    const next = await crashed.open();
    const [epoch] = await next.takeOrphanedEpochs();
    const events = epoch ? await unackedEvents(epoch, 0) : [];
    expect(events.map(decoded).map(({ eventId, costNanoUsd }) => [eventId, costNanoUsd])).toEqual([
      ['second', 2n],
      ['first', 5n],
    ]);
    await next.close();
  });

  it('opens on a disk that accepts no writes, and begins attempts once it does', async () => {
    let isFailing = true;
    let nowMs = 0;
    const files = faultyFiles(() => isFailing);
    const spool = await newTrackedPlace().open({ files, now: () => new Date(nowMs) });
    expect(spool.hasRoom(1)).toBe(false);
    isFailing = false;
    nowMs += 60_000;
    expect(spool.begin({ eventId: 'a', shard: 0, reserveNanoUsd: 1n, head: headOf('a') }).eventId).toBe('a');
    await spool.close();
  });

  it('rewrites unsynced records to another file after a failed sync, and rejects where that fails too', async () => {
    let failures = 0;
    let nowMs = 0;
    const files = faultyFiles((call) => call === 'sync' && failures-- > 0);
    const place = newTrackedPlace();
    const spool = await place.open({ files, sync: 'disk', now: () => new Date(nowMs) });
    const begin = (eventId: string) =>
      spool.begin({ eventId, shard: 2, reserveNanoUsd: 7n, head: headOf(eventId) });
    begin('synced').settle(tailOf(1n));
    await spool.durable();
    begin('unsynced').settle(tailOf(2n));
    begin('open');
    failures = 1;
    await spool.durable();
    const before = spool.own;
    expect((await unackedEvents(before, 2)).map(({ n }) => n)).toEqual([1n, 2n]);
    begin('also open');
    failures = 2;
    await expect(spool.durable()).rejects.toThrow('sync failed');
    expect(spool.hasRoom(1)).toBe(false);
    nowMs += 60_000;
    begin('late').settle(tailOf(3n));
    await spool.durable();
    const crashed = place.crashed();
    places.push(crashed);
    await spool.close();

    // Truncate the file of the failed sync, as a power cut may.
    const [first] = filesOf(crashed, spool.epoch);
    if (first) truncateSync(first.path, 500);
    const next = await crashed.open();
    const [epoch] = await next.takeOrphanedEpochs();
    const events = epoch ? await unackedEvents(epoch, 2) : [];
    expect(events.map((event) => decoded(event).eventId)).toEqual([
      'synced',
      'unsynced',
      'late',
      'open',
      'also open',
    ]);
    await next.close();
  });

  it('shares one sync among all callers that wait', async () => {
    let syncs = 0;
    const files = faultyFiles((call) => {
      if (call === 'sync') syncs++;
      return false;
    });
    const spool = await newTrackedPlace().open({ files, sync: 'disk' });
    const waits: (Promise<void> | undefined)[] = [];
    for (let index = 0; index < 100; index++) {
      const head = headOf(`e${index}`);
      spool.begin({ eventId: `e${index}`, shard: 0, reserveNanoUsd: 1n, head });
      waits.push(spool.durable());
    }
    await Promise.all(waits);
    expect(syncs).toBe(1);
    await spool.close();
  });
});

describe('a full spool', () => {
  it('refuses to begin, still accepts every end, and has space again once the ledger acks its events', async () => {
    const maxBytes = 300_000;
    const place = newTrackedPlace();
    const spool = await place.open({ maxBytes });
    const open = [];
    for (let round = 0; round < 3; round++) {
      for (let index = 0; spool.hasRoom(300); index++) {
        const eventId = `${round}-${index}`.padEnd(36, '-');
        const head = headOf(eventId, 200);
        open.push(spool.begin({ eventId, shard: index % 4, reserveNanoUsd: 1n, head }));
        if (index % 3 > 0) open.splice(Math.floor(index / 3) % open.length, 1)[0]?.settle(tailOf(1n));
      }
      const refused = { eventId: 'x', shard: 0, reserveNanoUsd: 1n, head: new Uint8Array(1_000) };
      expect(() => spool.begin(refused)).toThrow(SpoolFullError);
      for (const attempt of open.splice(0)) attempt.settle(new Uint8Array(1_024));
      await spool.durable();
      expect(spool.usedBytes).toBeLessThanOrEqual(maxBytes);
      expect(spool.usedBytes).toBeGreaterThan(maxBytes / 8);
      for (const shard of SHARDS) {
        expect(BigInt((await unackedEvents(spool.own, shard)).length)).toBe(
          spool.own.lastN(shard) - spool.own.ackedN(shard),
        );
        spool.own.ack(shard, spool.own.lastN(shard));
      }
      expect(spool.usedBytes).toBeLessThan(maxBytes / 8);
    }
    await spool.close();
  });

  it('counts the bytes of earlier epochs until they are removed', async () => {
    const place = newTrackedPlace();
    const first = await place.open({ maxBytes: 50_000 });
    for (let index = 0; first.hasRoom(350); index++) {
      const head = headOf(`e${index}`, 300);
      first.begin({ eventId: `e${index}`, shard: 0, reserveNanoUsd: 1n, head }).settle(tailOf(1n));
      first.flush();
    }
    const before = first.usedBytes;
    await first.close();
    const second = await place.open({ maxBytes: 50_000 });
    expect(second.usedBytes).toBeGreaterThanOrEqual(before);
    expect(second.hasRoom(350)).toBe(false);
    const [epoch] = await second.takeOrphanedEpochs();
    epoch?.ack(0, epoch.lastN(0));
    expect(second.usedBytes).toBeLessThan(before / 2);
    await epoch?.remove();
    expect(second.usedBytes).toBeLessThan(1_000);
    await second.close();
  });
});
