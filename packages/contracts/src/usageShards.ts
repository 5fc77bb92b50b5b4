/** The shards of an epoch that declares no other number, and those that every release reads. */
export const USAGE_SHARDS = 4;
/** The most that an epoch may declare. Each is a subject of the usage stream, with one consumer. */
export const MAX_USAGE_SHARDS = 64;

/**
 * The shard of a principal's events in an epoch of so many, the same in every process: FNV-1a of its id, mixed as in MurmurHash3. No finer than that, since each
 * event counts in its principal's own counters, and batches of several shards would wait for each other there.
 */
export function usageShard(principalId: string, shards: number = USAGE_SHARDS): number {
  let hash = 0x811c9dc5;
  for (let at = 0; at < principalId.length; at++) {
    hash = Math.imul(hash ^ principalId.charCodeAt(at), 0x01000193);
  }
  // The low bits of FNV-1a depend on the low bits of the text alone.
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % shards;
}
