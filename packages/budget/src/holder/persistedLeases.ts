import type { PersistedLease } from './lease.ts';
import type { LeaseBook } from './leaseBook.ts';

/** The spool's storage by key, which survives the process. */
interface LeaseStorage {
  /** Empty bytes delete the key. */
  writeLease(key: string, bytes: Uint8Array): void;
  readonly own: { leases(): ReadonlyMap<string, Uint8Array> };
}

/** When the control plane last answered. */
interface LastContact {
  /** Unix milliseconds; undefined before the first contact. */
  readonly lastContactWallMs: number | undefined;
  noteContact(at: { readonly monotonicMs: number; readonly wallMs: number }): void;
}

/** The key of the control plane's last contact; all other keys have a lease. */
const LAST_CONTACT = 'heard';
const DELETED = new Uint8Array();

/**
 * Stores the leases for the process that continues this epoch: without its control plane, they are all that it can spend.
 * Call it when nothing is reserved.
 */
export function persistLeases(
  storage: LeaseStorage,
  book: Pick<LeaseBook, 'toPersisted'>,
  { lastContactWallMs }: Pick<LastContact, 'lastContactWallMs'>,
): void {
  if (lastContactWallMs === undefined) return;
  storage.writeLease(LAST_CONTACT, Buffer.from(String(lastContactWallMs)));
  for (const [index, lease] of book.toPersisted().entries()) {
    storage.writeLease(String(index), Buffer.from(JSON.stringify(lease)));
  }
}

/** Takes over the leases that an earlier process of this epoch stored, and deletes them from the storage. */
export function restoreLeases(
  storage: LeaseStorage,
  book: Pick<LeaseBook, 'restore'>,
  heartbeats: Pick<LastContact, 'noteContact'>,
): void {
  const stored = new Map(storage.own.leases());
  const lastContactWallMs = Number(Buffer.from(stored.get(LAST_CONTACT) ?? []).toString());
  for (const key of stored.keys()) storage.writeLease(key, DELETED);
  stored.delete(LAST_CONTACT);
  const silenceMs = Date.now() - lastContactWallMs;
  // If this clock is behind the last contact, the leases' age is unknown.
  if (!(lastContactWallMs > 0 && silenceMs >= 0)) return;
  heartbeats.noteContact({ monotonicMs: performance.now() - silenceMs, wallMs: lastContactWallMs });
  book.restore(
    [...stored.values()].map((bytes) => JSON.parse(Buffer.from(bytes).toString()) as PersistedLease),
  );
}
