import type { HeartbeatState } from '../control/heartbeatState.ts';
import type { Spool } from '../record/spool/types.ts';
import type { PersistedLease } from './lease.ts';
import type { LeaseBook } from './leaseBook.ts';

/** Under it, the spool has when the control plane was last heard of; under all others, a lease. */
const HEARD = 'heard';

/**
 * Writes down what is leased, for a process that goes on with the same epoch: without its control plane it has nothing
 * else to spend. To be called when nothing is reserved.
 */
export function persistLeases(
  spool: Pick<Spool, 'writeLease'>,
  book: Pick<LeaseBook, 'kept'>,
  heartbeatState: HeartbeatState,
): void {
  const { heardAtWallMs } = heartbeatState;
  if (heardAtWallMs === undefined) return;
  spool.writeLease(HEARD, Buffer.from(String(heardAtWallMs)));
  for (const [index, lease] of book.kept().entries()) {
    spool.writeLease(String(index), Buffer.from(JSON.stringify(lease)));
  }
}

/** Takes up what an earlier process of this epoch wrote down, and forgets that it did. */
export function restoreLeases(
  spool: Pick<Spool, 'own' | 'writeLease'>,
  book: Pick<LeaseBook, 'restore'>,
  heartbeatState: HeartbeatState,
): void {
  const notes = new Map(spool.own.leases());
  const heardAtWallMs = Number(Buffer.from(notes.get(HEARD) ?? []).toString());
  for (const key of notes.keys()) spool.writeLease(key, NOTHING);
  notes.delete(HEARD);
  const silenceMs = Date.now() - heardAtWallMs;
  // A clock behind it says nothing of how long that was.
  if (!(heardAtWallMs > 0 && silenceMs >= 0)) return;
  heartbeatState.heard({ monotonicMs: performance.now() - silenceMs, wallMs: heardAtWallMs });
  book.restore(
    [...notes.values()].map((bytes) => JSON.parse(Buffer.from(bytes).toString()) as PersistedLease),
  );
}

const NOTHING = new Uint8Array();
