import { cpSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { Outcome, type UsageEvent, UsageEventSchema } from '@weighbridge/contracts';
import { newUuid } from '@weighbridge/domain';
import { createLogger } from '@weighbridge/runtime';
import { openSpool } from '../src/spool/spool.ts';
import type { SettledEvent, Spool, SpoolEpoch, SpoolOptions } from '../src/spool/types.ts';

export { seededRandom as seeded } from '@weighbridge/domain';

export const SHARDS = [0, 1, 2, 3] as const;

export interface SpoolPlace {
  /** The spool's folder, in a parent folder that only this test uses. */
  readonly dir: string;
  open(options?: Partial<SpoolOptions>): Promise<Spool>;
  /** A copy of what a crash would leave now, without the lock. */
  crashed(): SpoolPlace;
  remove(): void;
}

export function newPlace(): SpoolPlace {
  const parent = mkdtempSync(join(tmpdir(), 'spool-'));
  return placeIn(parent, 'own');
}

export function placeIn(parent: string, name: string): SpoolPlace {
  const dir = join(parent, name);
  const logger = createLogger('test', { write: () => {} });
  return {
    dir,
    open: (options) =>
      openSpool({
        dir,
        maxBytes: 1024 ** 3,
        sync: 'process',
        newId: newUuid,
        now: () => new Date(),
        logger,
        ...options,
      }),
    crashed() {
      const copy = newPlace();
      cpSync(dir, copy.dir, { recursive: true, filter: (path) => !path.endsWith('/lock') });
      return copy;
    },
    remove: () => rmSync(parent, { recursive: true, force: true }),
  };
}

export function headOf(eventId: string, padding = 100): Uint8Array {
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, { eventId, model: 'm'.repeat(padding), attempt: 1 }),
  );
}

export function tailOf(costNanoUsd: bigint): Uint8Array {
  return toBinary(
    UsageEventSchema,
    create(UsageEventSchema, { usage: { input: 1 }, costNanoUsd, outcome: Outcome.SUCCESS }),
  );
}

export function decoded({ bytes }: SettledEvent): UsageEvent {
  return fromBinary(UsageEventSchema, bytes);
}

/** All unacked events of a shard, read in parts. */
export async function unackedEvents(
  epoch: SpoolEpoch,
  shard: number,
  partBytes = 4_000,
): Promise<SettledEvent[]> {
  const events: SettledEvent[] = [];
  for (let n = epoch.ackedN(shard) + 1n; ; ) {
    const part = await epoch.read(shard, n, partBytes);
    const last = part.at(-1);
    if (!last) return events;
    events.push(...part);
    n = last.n + 1n;
  }
}

export function filesOf(spool: SpoolPlace, epoch: string): { path: string; bytes: number }[] {
  const folder = join(spool.dir, epoch);
  return readdirSync(folder)
    .sort()
    .map((name) => ({ path: join(folder, name), bytes: statSync(join(folder, name)).size }));
}
