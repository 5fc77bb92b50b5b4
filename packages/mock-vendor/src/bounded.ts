/** Shortens a list to its newest `keep` items, in place: readers hold the same array. */
export function dropOldest(list: unknown[], keep: number): void {
  if (list.length > keep) list.splice(0, list.length - keep);
}
