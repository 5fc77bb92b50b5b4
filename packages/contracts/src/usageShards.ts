/** The usage stream has this many subjects, each read by one consumer, so that a hot bucket has one writer. */
export const USAGE_SHARDS = 4;

/** The shard of a bucket: FNV-1a of its governing counter's names, the same in every process. */
export function usageShard(bucket: { readonly policyId: string; readonly subject: string }): number {
  let hash = 0x811c9dc5;
  for (const character of `${bucket.policyId}/${bucket.subject}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return (hash >>> 0) % USAGE_SHARDS;
}
