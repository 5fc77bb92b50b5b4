/** Requests and tokens of one minute. */
export interface RateAmounts {
  readonly requests: bigint;
  readonly tokens: bigint;
}

export interface RateGrant extends RateAmounts {
  /** The part of the shared limits that is still free. */
  readonly requestsLeft: bigint;
  readonly tokensLeft: bigint;
}

export const NO_RATES: RateGrant = { requests: 0n, tokens: 0n, requestsLeft: 0n, tokensLeft: 0n };

/** What each proxy may use of a limit without asking: a quarter of its even share, in whole numbers. */
export function unaskedOf(limit: number, liveProxies: number): number {
  return Math.floor(limit / (4 * liveProxies));
}

/** What all proxies may use of a limit by asking: the rest. */
export function sharedOf(limit: number, liveProxies: number): number {
  return limit - liveProxies * unaskedOf(limit, liveProxies);
}

/** What a call is granted of a minute's shared limits, of which `used` was granted before. */
export function decideRates(
  limits: RateAmounts,
  used: RateAmounts,
  wanted: RateAmounts,
  liveProxies: number,
): RateGrant {
  const requests = grantOf(limits.requests, used.requests, wanted.requests, liveProxies);
  const tokens = grantOf(limits.tokens, used.tokens, wanted.tokens, liveProxies);
  return {
    requests: requests.granted,
    tokens: tokens.granted,
    requestsLeft: requests.left,
    tokensLeft: tokens.left,
  };
}

function grantOf(
  limit: bigint,
  used: bigint,
  wanted: bigint,
  liveProxies: number,
): { readonly granted: bigint; readonly left: bigint } {
  const left = BigInt(sharedOf(Number(limit), liveProxies)) - used;
  if (left <= 0n) return { granted: 0n, left: 0n };
  const granted = wanted < left ? wanted : left;
  return { granted, left: left - granted };
}
