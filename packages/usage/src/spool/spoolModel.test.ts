import { existsSync, readFileSync, truncateSync } from 'node:fs';
import { join } from 'node:path';
import { MAX_USAGE_SHARDS, Outcome, USAGE_SHARDS } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { afterAll, afterEach, describe, expect, it } from 'vitest';
import {
  decoded,
  filesOf,
  headOf,
  newPlace,
  type SpoolPlace,
  seeded,
  tailOf,
  unackedEvents,
} from '../../test/spoolFixture.ts';
import type { AttemptRecord } from './attemptRecord.ts';
import { eventRecordBytes } from './recordFormat.ts';
import type { Spool, SpoolEpoch } from './types.ts';

/** An operation and the size of its record. */
interface Done {
  readonly recordBytes: number;
  readonly begun?: { readonly eventId: string; readonly shard: number; readonly reserve: bigint };
  readonly settled?: { readonly eventId: string; readonly shard: number; readonly cost: bigint };
}

/** A written operation and its end in a file. */
interface Step extends Done {
  readonly file: string;
  readonly bytes: number;
}

interface Expected {
  /** By shard, then by n − 1. */
  readonly settled: { eventId: string; cost: bigint }[][];
  readonly open: Map<string, { shard: number; reserve: bigint }>;
}

let writtenAtOnce = 0;

const RUNS = 15;
const MAX_BYTES = 1024 * 1024;
const places: SpoolPlace[] = [];
afterEach(() => {
  for (const place of places.splice(0)) place.remove();
});
afterAll(() => expect(writtenAtOnce).toBeGreaterThan(10));

describe('a spool', () => {
  it.each(Array.from({ length: RUNS }, (_, run) => run + 1))(
    'has every settled event once, and every open attempt at its reservation, after any crash (seed %i)',
    async (seed) => {
      const random = seeded(seed);
      let place = track(newPlace());
      for (let life = 0; life < 3; life++) {
        const shards = random() < 0.4 ? USAGE_SHARDS : 1 + Math.floor(random() * MAX_USAGE_SHARDS);
        const segmentBytes = 500 + random() * 6_000;
        const spool = await place.open({ maxBytes: MAX_BYTES, segmentBytes, shards });
        expect(spool.shards).toBe(shards);
        const removed = await takeAll(spool, random() < 0.5);
        for (const name of removed) expect(existsSync(join(place.dir, name))).toBe(false);
        const { steps, acked, firstSafeCut } = await live(place, spool, random);
        const crashed = track(place.crashed());
        let surviving = steps;
        if (random() < 0.5) {
          const file = filesOf(crashed, spool.epoch).at(-1);
          if (!file) throw new Error('an epoch has a file');
          const from = firstSafeCut(file.path);
          const cut = from + Math.floor(random() * (file.bytes - from + 1));
          truncateSync(file.path, cut);
          const name = file.path.slice(-15);
          surviving = steps.filter((step) => step.file < name || (step.file === name && step.bytes <= cut));
        }
        await spool.close();
        place = await recover(crashed, spool, expectedAfter(surviving, spool), acked, random);
      }
    },
  );
});

function track(place: SpoolPlace): SpoolPlace {
  places.push(place);
  return place;
}

/** Takes the epochs of earlier lives. */
async function takeAll(spool: Spool, isRemoving: boolean): Promise<string[]> {
  const removed: string[] = [];
  for (const epoch of await spool.takeOrphanedEpochs()) {
    for (const shard of shardsOf(epoch)) {
      expect(numbers(await unackedEvents(epoch, shard))).toEqual(range(epoch, shard));
      if (isRemoving) epoch.ack(shard, epoch.lastN(shard));
    }
    if (!isRemoving) continue;
    await epoch.remove();
    removed.push(epoch.epoch);
  }
  return removed;
}

async function live(place: SpoolPlace, spool: Spool, random: () => number) {
  const steps: Step[] = [];
  /** Operations of this turn that are not written yet. */
  let turn: Done[] = [];
  const open: { attempt: AttemptRecord; shard: number; headBytes: number }[] = [];
  const pick = (below: number) => Math.floor(random() * below);
  let ackedAt = { file: '', bytes: 0 };
  const opened = new Map<string, number>();
  const here = () => {
    const last = filesOf(place, spool.epoch).at(-1);
    const at = { file: last?.path.slice(-15) ?? '', bytes: last?.bytes ?? 0 };
    if (!opened.has(at.file)) opened.set(at.file, at.bytes);
    return at;
  };
  const shards = shardsOf(spool);
  const settled = shards.map(() => 0n);
  const costs = new Map<string, bigint>();
  /** The sender gets events only in order, and only once they are in the file. */
  spool.onSettled((event) => {
    const { shard, n, bytes } = event;
    const { eventId, costNanoUsd } = decoded(event);
    expect(costs.get(eventId)).toBe(costNanoUsd);
    settled[shard] = (settled[shard] ?? 0n) + 1n;
    expect(n).toBe(settled[shard]);
    expect(n <= spool.own.lastN(shard)).toBe(true);
    const last = filesOf(place, spool.epoch).at(-1);
    expect(last && readFileSync(last.path).includes(Buffer.from(bytes))).toBe(true);
  });
  const write = async () => {
    if (random() < 0.5) spool.flush();
    // With nothing left to write, only the turn has to end.
    else await (spool.durable() ?? new Promise((resolve) => setImmediate(resolve)));
    noteWritten();
  };
  const noteWritten = () => {
    let { file, bytes } = here();
    const written: Step[] = [];
    for (const done of turn.reverse()) {
      written.unshift({ ...done, file, bytes });
      bytes -= done.recordBytes;
    }
    steps.push(...written);
    turn = [];
    expect(settled).toEqual(shards.map((shard) => spool.own.lastN(shard)));
  };
  const turnsOf = 1 + pick(12);
  for (let step = 20 + pick(150); step > 0; step--) {
    if (random() < 1 / turnsOf) await write();
    const kind = random();
    if (kind < 0.45) {
      const begun = { eventId: newUuid(), shard: pick(spool.shards), reserve: BigInt(1 + pick(1_000_000)) };
      const head = headOf(begun.eventId, pick(random() < 0.1 ? 5_000 : 300));
      const attempt = spool.begin({ ...begun, reserveNanoUsd: begun.reserve, head });
      open.push({ attempt, shard: begun.shard, headBytes: head.length });
      turn.push({ begun, recordBytes: eventRecordBytes(begun.eventId, head.length) });
    } else if (kind < 0.85 && open.length > 0) {
      const [one] = open.splice(pick(open.length), 1);
      if (!one) continue;
      const { attempt, shard, headBytes } = one;
      const { eventId } = attempt;
      const cost = BigInt(pick(1_000_000));
      const tail = tailOf(cost);
      const before = spool.own.lastN(shard);
      costs.set(eventId, cost);
      attempt.settle(tail);
      const recordBytes = eventRecordBytes(eventId, headBytes + tail.length);
      turn.push({ settled: { eventId, shard, cost }, recordBytes });
      // The number does not exist before it is written; what is alone is written at once.
      if (spool.own.lastN(shard) === before) continue;
      expect(turn).toHaveLength(1);
      writtenAtOnce++;
      noteWritten();
    } else if (kind < 0.95) {
      const shard = pick(spool.shards);
      const { own } = spool;
      await write();
      const ahead = Number(own.lastN(shard) - own.ackedN(shard));
      own.ack(shard, own.ackedN(shard) + BigInt(pick(ahead + 1)));
      ackedAt = here();
    } else {
      const shard = pick(spool.shards);
      await write();
      expect(numbers(await unackedEvents(spool.own, shard, 1 + pick(5_000)))).toEqual(
        range(spool.own, shard),
      );
    }
  }
  // The crash comes during a turn, which is then lost, or at its end.
  if (random() < 0.3) await write();
  const acked = shards.map((shard) => spool.own.ackedN(shard));
  return {
    steps,
    acked,
    /** A power cut must not lose the records that made it safe to delete other files. */
    firstSafeCut(path: string) {
      const file = path.slice(-15);
      if (filesOf(place, spool.epoch).length === Number(file.slice(0, 10))) return 0;
      return Math.max(opened.get(file) ?? 0, ackedAt.file === file ? ackedAt.bytes : 0);
    },
  };
}

function expectedAfter(steps: readonly Step[], spool: Spool): Expected {
  const expected: Expected = { settled: shardsOf(spool).map(() => []), open: new Map() };
  for (const { begun, settled } of steps) {
    if (begun) expected.open.set(begun.eventId, begun);
    if (!settled) continue;
    expected.settled[settled.shard]?.push(settled);
    expected.open.delete(settled.eventId);
  }
  return expected;
}

async function recover(
  place: SpoolPlace,
  before: Spool,
  expected: Expected,
  acked: readonly bigint[],
  random: () => number,
): Promise<SpoolPlace> {
  const spool = await place.open({ maxBytes: MAX_BYTES, segmentBytes: 2_000 });
  const left = await spool.takeOrphanedEpochs();
  expect(await spool.takeOrphanedEpochs()).toEqual([]);
  const epoch = left.find((one) => one.epoch === before.epoch);
  if (!epoch) throw new Error('the crashed epoch is not orphaned');
  expect(epoch.producerId).toBe(before.producerId);
  const orphans = new Set(expected.open.keys());
  const shards = shardsOf(epoch);
  // All of the epoch may be lost, or more than its header.
  if (epoch.shards > USAGE_SHARDS) expect(epoch.shards).toBe(before.shards);
  for (const shard of shards) {
    const settled = expected.settled[shard] ?? [];
    const events = await unackedEvents(epoch, shard, 1 + Math.floor(random() * 4_000));
    expect(numbers(events)).toEqual(range(epoch, shard));
    expect(epoch.ackedN(shard) <= (acked[shard] ?? 0n)).toBe(true);
    for (const event of events) {
      const { eventId, costNanoUsd, estimated, outcome } = decoded(event);
      const known = settled[Number(event.n) - 1];
      if (known) expect([eventId, costNanoUsd]).toEqual([known.eventId, known.cost]);
      else {
        expect(orphans.delete(eventId)).toBe(true);
        expect(expected.open.get(eventId)).toMatchObject({ shard, reserve: costNanoUsd });
        expect([estimated, outcome]).toEqual([true, Outcome.INTERRUPTED]);
      }
    }
    epoch.ack(shard, epoch.lastN(shard) - BigInt(Math.floor(random() * 3)));
  }
  expect([...orphans]).toEqual([]);

  // The recovered state survives another crash.
  const next = track(place.crashed());
  const ends = shards.map((shard) => epoch.lastN(shard));
  const again = await next.open({ maxBytes: MAX_BYTES });
  const same = (await again.takeOrphanedEpochs()).find((one) => one.epoch === before.epoch);
  expect(shards.map((shard) => same?.lastN(shard))).toEqual(ends);
  for (const shard of shards) {
    if (same) expect(numbers(await unackedEvents(same, shard))).toEqual(range(same, shard));
    same?.ack(shard, same.lastN(shard));
  }
  await same?.remove();
  await spool.close();
  await again.own.remove();
  await again.close();
  return next;
}

function shardsOf({ shards }: { readonly shards: number }): number[] {
  return Array.from({ length: shards }, (_, shard) => shard);
}

function numbers(events: readonly { n: bigint }[]): bigint[] {
  return events.map(({ n }) => n);
}

function range(epoch: SpoolEpoch, shard: number): bigint[] {
  const from = epoch.ackedN(shard);
  return Array.from({ length: Number(epoch.lastN(shard) - from) }, (_, index) => from + 1n + BigInt(index));
}
