/** A policy of a key's chain that limits requests or tokens a minute, or how many are under way. */
export interface RatedPolicy {
  readonly policyId: string;
  readonly counterVersion: number;
  readonly subject: string;
  /** Names the counter: the policy, its version and the subject, once per key rather than once per request. */
  readonly counterKey: string;
  readonly requestsPerMinute: number | undefined;
  readonly tokensPerMinute: number | undefined;
  readonly maxParallel: number | undefined;
  /** A policy in `shadow` refuses nothing, and counts what it would have refused. */
  readonly enforcement: 'enforce' | 'shadow';
}
