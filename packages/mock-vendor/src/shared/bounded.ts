/** Removes all but the newest `keep` items, in place, since readers hold the same array. */
export function dropOldest(list: unknown[], keep: number): void {
  if (list.length > keep) list.splice(0, list.length - keep);
}
