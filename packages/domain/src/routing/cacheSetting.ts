/** The response cache settings of a policy or a profile. */
export interface CacheSetting {
  /** Which requests share a cached response: those of the same principal, or of the same policy. */
  readonly scope: 'principal' | 'policy';
  readonly ttlMs: number;
}
