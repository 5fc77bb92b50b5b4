/** What an identity provider issues for a while. */
export interface AccessToken {
  readonly value: string;
  /** Counted from when it was asked for. */
  readonly lifeMs: number;
}
