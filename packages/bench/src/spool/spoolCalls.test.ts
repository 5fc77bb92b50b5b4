import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { openSpool } from './inMemorySpool.ts';
import { measureSpoolCalls } from './spoolCalls.ts';

it('measures the spool and its in-memory replacement, and removes its folder', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'weighbridge-'));
  const { spool, memory } = await measureSpoolCalls(folder, 1);
  expect([spool.median, memory.median].every((micros) => micros > 0)).toBe(true);
  expect(await readdir(folder)).toEqual([]);
  await rm(folder, { recursive: true });
});

it('has an in-memory replacement that numbers events by shard and drops acked ones', async () => {
  const spool = await openSpool({ maxBytes: 1 });
  const { own } = spool;
  const settled: { readonly n: bigint; readonly bytes: Uint8Array }[] = [];
  spool.onSettled((event) => settled.push(event));
  const settle = (shard: number, tail: number) => {
    spool.begin({ eventId: `${tail}`, shard, head: Uint8Array.of(1) }).settle(Uint8Array.of(tail));
    return settled.at(-1);
  };
  expect(settle(0, 2)).toMatchObject({ n: 1n, bytes: Buffer.of(1, 2) });
  expect([settle(0, 3)?.n, settle(1, 4)?.n, settle(0, 5)?.n]).toEqual([2n, 1n, 3n]);
  own.ack(0, 2n);
  own.ack(0, 1n);
  expect((await own.read(0, 1n)).map(({ n }) => n)).toEqual([3n]);
  expect([own.lastN(0), own.ackedN(0), own.lastN(1)]).toEqual([3n, 2n, 1n]);
});
