/** The number of subjects of the usage stream. Each has one consumer, so a hot bucket has one writer. */
export const USAGE_SHARDS = 4;

/** The shard of a bucket: FNV-1a of its policy and subject, the same in every process. */
export function usageShard(bucket: { readonly policyId: string; readonly subject: string }): number {
  let hash = 0x811c9dc5;
  for (const character of `${bucket.policyId}/${bucket.subject}`) {
    hash = Math.imul(hash ^ (character.codePointAt(0) ?? 0), 0x01000193);
  }
  return (hash >>> 0) % USAGE_SHARDS;
}
