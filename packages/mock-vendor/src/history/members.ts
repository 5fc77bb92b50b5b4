import type { JsonRecord } from '../shared/parameters.ts';
import type { VendorError } from '../shared/vendorError.ts';

/** The members of each kind of object, besides its type. */
export function membersOf(kinds: Readonly<Record<string, string>>): ReadonlyMap<string, ReadonlySet<string>> {
  return new Map(
    Object.entries(kinds).map(([kind, names]) => [kind, new Set(['type', ...names.split(' ')])]),
  );
}

/** Throws for the first member that is none of these. */
export function onlyMembers(
  value: JsonRecord,
  known: Iterable<string>,
  error: (name: string) => VendorError,
): void {
  const names = new Set(known);
  for (const name of Object.keys(value)) if (!names.has(name)) throw error(name);
}

/** Empty if it is no list. */
export function list(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
