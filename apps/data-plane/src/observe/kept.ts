/** What is kept at hand of each: beyond, all of it is found anew. */
const MAX_KEPT = 1_000;

/** What a map has, else what is made and kept in it, within bounds. */
export function kept<Key, Value>(map: Map<Key, Value>, key: Key, make: () => Value): Value {
  const known = map.get(key);
  if (known !== undefined) return known;
  if (map.size >= MAX_KEPT) map.clear();
  const made = make();
  map.set(key, made);
  return made;
}
