import type { Pulse } from '../control/pulse.ts';
import type { Spool } from '../record/spool/types.ts';
import type { KeptLease } from './lease.ts';
import type { LeaseBook } from './leaseBook.ts';

/** Under it, the spool has when the control plane was last heard of; under all others, a lease. */
const HEARD = 'heard';

/**
 * Writes down what is leased, for a process that goes on with the same epoch: without its control plane it has nothing
 * else to spend. To be called when nothing is reserved.
 */
export function keepLeases(
  spool: Pick<Spool, 'noteLease'>,
  book: Pick<LeaseBook, 'kept'>,
  pulse: Pulse,
): void {
  const { heardAtWallMs } = pulse;
  if (heardAtWallMs === undefined) return;
  spool.noteLease(HEARD, Buffer.from(String(heardAtWallMs)));
  for (const [index, lease] of book.kept().entries()) {
    spool.noteLease(String(index), Buffer.from(JSON.stringify(lease)));
  }
}

/** Takes up what an earlier process of this epoch wrote down, and forgets that it did. */
export function restoreLeases(
  spool: Pick<Spool, 'own' | 'noteLease'>,
  book: Pick<LeaseBook, 'restore'>,
  pulse: Pulse,
): void {
  const notes = new Map(spool.own.leases());
  const heardAtWallMs = Number(Buffer.from(notes.get(HEARD) ?? []).toString());
  for (const key of notes.keys()) spool.noteLease(key, NOTHING);
  notes.delete(HEARD);
  const silenceMs = Date.now() - heardAtWallMs;
  // A clock behind it says nothing of how long that was.
  if (!(heardAtWallMs > 0 && silenceMs >= 0)) return;
  pulse.heard({ monotonicMs: performance.now() - silenceMs, wallMs: heardAtWallMs });
  book.restore([...notes.values()].map((bytes) => JSON.parse(Buffer.from(bytes).toString()) as KeptLease));
}

const NOTHING = new Uint8Array();
