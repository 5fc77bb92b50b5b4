/** A full map is cleared: its values can all be created again. */
const MAX_ENTRIES = 1_000;

/** Returns the value of a key, and creates and stores it if there is none. The map stays bounded. */
export function getOrCreate<Key, Value>(map: Map<Key, Value>, key: Key, create: () => Value): Value {
  const existing = map.get(key);
  if (existing !== undefined) return existing;
  if (map.size >= MAX_ENTRIES) map.clear();
  const created = create();
  map.set(key, created);
  return created;
}
