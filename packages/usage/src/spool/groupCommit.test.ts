import { readFileSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  filesOf,
  headOf,
  newPlace,
  type SpoolPlace,
  tailOf,
  unackedEvents,
} from '../../test/spoolFixture.ts';
import { type FileSystem, nodeFileSystem } from './fileSystem.ts';
import { RecordType, recordType } from './recordFormat.ts';
import type { SettledEvent, Spool } from './types.ts';

let place: SpoolPlace;
beforeEach(() => {
  place = newPlace();
});
afterEach(() => place.remove());

/** The real file system; counts writes, and fails them on demand. */
function countedFiles() {
  const state = { writes: 0, isFailing: false };
  const files: FileSystem = {
    ...nodeFileSystem,
    write(file, bytes, from, position) {
      state.writes++;
      if (!state.isFailing) return nodeFileSystem.write(file, bytes, from, position);
      // Half of the bytes are written before the failure.
      nodeFileSystem.write(file, bytes.subarray(0, bytes.length >> 1), from, position);
      throw new Error('the disk is full');
    },
  };
  return { state, files };
}

function begin(spool: Spool, eventId: string, headBytes = 100) {
  return spool.begin({ eventId, shard: 0, reserveNanoUsd: 5n, head: headOf(eventId, headBytes) });
}

function fileBytes(spool: Spool): Buffer {
  return Buffer.concat(filesOf(place, spool.epoch).map(({ path }) => readFileSync(path)));
}

describe('the records of one turn of the event loop', () => {
  it('are written by one write, and the sender never gets an event that is not in the file', async () => {
    const { state, files } = countedFiles();
    const spool = await place.open({ files });
    const attempts = ['a', 'b', 'c'].map((eventId) => begin(spool, eventId));
    await spool.durable();
    const settled: SettledEvent[] = [];
    spool.onSettled((event) => {
      expect(fileBytes(spool).includes(Buffer.from(event.bytes))).toBe(true);
      settled.push(event);
    });
    state.writes = 0;
    for (const attempt of attempts) attempt.settle(tailOf(1n));
    begin(spool, 'd').settle(tailOf(2n));
    expect([settled, state.writes, spool.own.lastN(0)]).toEqual([[], 0, 0n]);
    await spool.durable();
    expect([state.writes, spool.durable()]).toEqual([1, undefined]);
    expect(settled.map(({ n }) => n)).toEqual([1n, 2n, 3n, 4n]);
    await spool.close();
  });

  it('are one SETTLE that is written at once, while turns have no more than one record', async () => {
    const { state, files } = countedFiles();
    const spool = await place.open({ files });
    const settled: SettledEvent[] = [];
    spool.onSettled((event) => settled.push(event));
    const nextTurn = () => new Promise((resolve) => setImmediate(resolve));
    const [lone, ...others] = ['a', 'b', 'c', 'd'].map((eventId) => begin(spool, eventId));
    await spool.durable();
    begin(spool, 'e').writeIntent();
    await nextTurn();
    state.writes = 0;
    lone?.settle(tailOf(1n));
    expect([state.writes, settled.length, spool.durable()]).toEqual([1, 1, undefined]);
    // A second one in the same turn is not alone.
    others[0]?.settle(tailOf(1n));
    expect([state.writes, settled.length]).toEqual([1, 1]);
    await spool.durable();
    expect([state.writes, settled.length]).toEqual([2, 2]);
    // Nor is the first one of the turn after that.
    others[1]?.settle(tailOf(1n));
    expect([state.writes, settled.length]).toEqual([2, 2]);
    await spool.durable();
    state.isFailing = true;
    others[2]?.settle(tailOf(1n));
    await expect(spool.durable()).rejects.toThrow('the disk is full');
    expect([settled.length, spool.openAttempts]).toEqual([3, 2]);
    await spool.close();
  });

  it('are all refused where the write fails: begins are refused, and ends stay open', async () => {
    const { state, files } = countedFiles();
    let nowMs = 0;
    const spool = await place.open({ files, now: () => new Date(nowMs) });
    const early = begin(spool, 'early');
    await spool.durable();
    const settled: SettledEvent[] = [];
    spool.onSettled((event) => settled.push(event));
    const [first, second] = [begin(spool, 'first'), begin(spool, 'second')];
    early.settle(tailOf(1n));
    second.settle(tailOf(2n));
    const before = spool.usedBytes;
    state.isFailing = true;
    await expect(spool.durable()).rejects.toThrow('the disk is full');
    first.settle(tailOf(3n));
    second.settle(tailOf(3n));
    expect([settled, spool.openAttempts, spool.own.lastN(0), spool.usedBytes]).toEqual([[], 1, 0n, before]);
    expect(spool.hasRoom(1)).toBe(false);

    state.isFailing = false;
    nowMs += 60_000;
    early.settle(tailOf(4n));
    begin(spool, 'first').settle(tailOf(5n));
    await spool.durable();
    expect(settled.map(({ n }) => n)).toEqual([1n, 2n]);
    const copy = place.crashed();
    const next = await copy.open();
    const [epoch] = await next.takeOrphanedEpochs();
    const ledger = epoch ? await unackedEvents(epoch, 0) : [];
    expect(ledger.map(({ bytes }) => Buffer.from(bytes))).toEqual(
      settled.map(({ bytes }) => Buffer.from(bytes)),
    );
    await next.close();
    copy.remove();
    await spool.close();
  });

  it('report a failed write to callers that ask afterwards, too', async () => {
    const { state, files } = countedFiles();
    const spool = await place.open({ files });
    begin(spool, 'a');
    state.isFailing = true;
    spool.flush();
    await expect(spool.durable()).rejects.toThrow('the disk is full');
    expect(spool.durable()).toBeUndefined();
    await spool.close();
  });

  it('are written in parts before they take much memory', async () => {
    const { state, files } = countedFiles();
    const spool = await place.open({ files });
    state.writes = 0;
    for (let index = 0; index < 1_000; index++) {
      begin(spool, `event-${index}`, 1_000).settle(tailOf(1n));
    }
    // All but about a quarter of a MiB is written.
    expect(state.writes).toBeGreaterThan(5);
    expect(fileBytes(spool).length).toBeGreaterThan(1024 * 1024);
    await spool.durable();
    expect(spool.own.lastN(0)).toBe(1_000n);
    await spool.close();
  });

  it('take space as soon as they are queued', async () => {
    const counts: number[] = [];
    for (const isWritten of [true, false]) {
      const spool = await place.open({ maxBytes: 60_000 });
      let count = 0;
      for (; spool.hasRoom(200); count++) {
        begin(spool, String(count).padEnd(36, '-'), 150);
        if (isWritten) spool.flush();
      }
      counts.push(count);
      await spool.durable();
      expect(spool.openAttempts).toBe(count);
      await spool.own.remove();
      await spool.close();
    }
    expect(counts[1]).toBe(counts[0]);
    expect(counts[0]).toBeGreaterThan(10);
  });

  it.each([
    ['a lease', (spool: Spool) => spool.writeLease('key', Buffer.from('held')), RecordType.lease],
    ['an ack', (spool: Spool) => spool.own.ack(0, 3n), RecordType.ack],
    ['the close', (spool: Spool) => spool.close(), undefined],
  ])('is in the file before %s', async (_what, write, type) => {
    const spool = await place.open({ segmentBytes: 500 });
    for (const eventId of ['a', 'b', 'c']) {
      begin(spool, eventId, 300).settle(tailOf(1n));
      await spool.durable();
    }
    begin(spool, 'last').settle(tailOf(1n));
    await write(spool);
    const types: number[] = [];
    const bytes = fileBytes(spool);
    for (let at = 0; at < bytes.length; at += 8 + bytes.readUInt32LE(at)) {
      const record = bytes.subarray(at, at + 8 + bytes.readUInt32LE(at));
      if (recordType(record) === RecordType.settle ? record.includes('last') : recordType(record) === type) {
        types.push(recordType(record));
      }
    }
    expect(types).toEqual(type ? [RecordType.settle, type] : [RecordType.settle]);
    await spool.close();
  });
});
