import { type RateBook, type RateReservation, setRateHeaders } from '@weighbridge/budget';
import type { ResolvedKey } from '@weighbridge/state';
import type { Plan } from '../attempt/plan.ts';
import { rateTokens } from '../attempt/reservationEstimate.ts';
import type { ResponseHeaders } from '../attempt/responseHeaders.ts';

export interface RateDeps {
  readonly rates: Pick<RateBook, 'admit' | 'settle' | 'undo' | 'figures'>;
  readonly usualTokens: (model: string) => number | undefined;
}

/** Counts a request against the limits per minute of its key; undefined if there are none. Rejects with a 429. */
export function admitByRates(
  deps: RateDeps,
  key: ResolvedKey,
  plan: Plan,
  headers: ResponseHeaders,
): RateReservation | undefined | Promise<RateReservation> {
  if (plan.kind !== 'generation' || key.rates.length === 0) return undefined;
  const { generation, targets } = plan;
  const [{ model }] = targets;
  return admitTokens(deps, key, rateTokens(deps.usualTokens, generation, model), headers);
}

/** Counts a request of this many tokens; writes the rate-limit headers whether it is admitted or not. */
export function admitTokens(
  deps: Pick<RateDeps, 'rates'>,
  key: ResolvedKey,
  tokens: number,
  headers: ResponseHeaders,
): RateReservation | Promise<RateReservation> {
  const write = () => writeRateHeaders(deps, key, headers);
  let hold: RateReservation | Promise<RateReservation> | undefined;
  try {
    hold = deps.rates.admit(key.rates, tokens);
  } finally {
    if (!(hold instanceof Promise)) write();
  }
  return hold instanceof Promise ? hold.finally(write) : hold;
}

export function writeRateHeaders(
  { rates }: Pick<RateDeps, 'rates'>,
  key: ResolvedKey,
  headers: ResponseHeaders,
): void {
  const figures = rates.figures(key.rates);
  if (figures) setRateHeaders(headers, figures);
}
