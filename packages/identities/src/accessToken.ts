/** What an identity provider issues for a while. */
export interface AccessToken<Value = string> {
  readonly value: Value;
  /** Counted from when it was asked for. */
  readonly lifeMs: number;
}
