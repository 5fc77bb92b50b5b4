/** What a policy or a profile says of the response cache. */
export interface CacheSetting {
  /** Whose requests an answer is given to. */
  readonly scope: 'principal' | 'policy';
  readonly ttlMs: number;
}
