import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { openSpoolForBenchmark } from '@weighbridge/data-plane/benchmarks';
import { type Figure, figure } from '../shared/figures.ts';
import { openSpool as openInMemorySpool } from './inMemorySpool.ts';

const ATTEMPTS = 20_000;
/** Attempts that begin, and end, per turn of the event loop: half of the records that a proxy under load wrote at once. */
const PER_TURN = 8;
const SHARDS = 4;
/** About the sizes of the two halves of an event. */
const HEAD = new Uint8Array(330).fill(1);
const TAIL = new Uint8Array(70).fill(1);

export interface SpoolCalls {
  /** Microseconds of CPU to begin an attempt and to settle it. */
  readonly spool: Figure;
  readonly memory: Figure;
}

type MeasuredSpool = Awaited<ReturnType<typeof openSpoolForBenchmark | typeof openInMemorySpool>>;

/** Measures the CPU to begin and settle attempts with the spool and with its in-memory replacement, in this process, in turns. */
export async function measureSpoolCalls(parentFolder: string, rounds: number): Promise<SpoolCalls> {
  const folder = await mkdtemp(join(parentFolder, 'spool-calls-'));
  const spool = await openSpoolForBenchmark(join(folder, 'spool'));
  const memory = await openInMemorySpool({ maxBytes: spool.maxBytes });
  try {
    for (const warmed of [spool, memory, spool, memory]) measureRound(warmed);
    const micros: { readonly spool: number; readonly memory: number }[] = [];
    for (let round = 0; round < rounds; round++) {
      micros.push({ spool: measureRound(spool), memory: measureRound(memory) });
    }
    return {
      spool: figure(micros.map((round) => round.spool)),
      memory: figure(micros.map((round) => round.memory)),
    };
  } finally {
    await spool.close();
    await rm(folder, { recursive: true, force: true });
  }
}

function measureRound(spool: MeasuredSpool): number {
  const ids = Array.from({ length: ATTEMPTS }, () => randomUUID());
  const before = process.cpuUsage();
  for (let at = 0; at < ATTEMPTS; at += PER_TURN) {
    const begun = ids
      .slice(at, at + PER_TURN)
      .map((eventId, next) =>
        spool.begin({ eventId, shard: next % SHARDS, reserveNanoUsd: 1_000_000n, head: HEAD }),
      );
    spool.flush();
    for (const attempt of begun) attempt.settle(TAIL);
    spool.flush();
  }
  // As when the ledger acks them.
  for (let shard = 0; shard < SHARDS; shard++) spool.own.ack(shard, spool.own.lastN(shard));
  const { user, system } = process.cpuUsage(before);
  return (user + system) / ATTEMPTS;
}
