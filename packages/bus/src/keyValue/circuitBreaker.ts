/**
 * Skips calls to a server that has stopped responding, so that callers need not wait for the time-out. Opens after three
 * time-outs in a row. While it is open, it allows one call a second as a probe; a response closes it.
 */
export interface CircuitBreaker {
  /** Undefined: skip the call. Otherwise, report its end once with the returned function. */
  begin(): ((hasResponded: boolean) => void) | undefined;
}

const MAX_TIMEOUTS_IN_A_ROW = 3;
const PROBE_INTERVAL_MS = 1_000;

/** `nowMs` is monotonic. */
export function createCircuitBreaker(nowMs: () => number): CircuitBreaker {
  let timeouts = 0;
  let nextProbeMs = 0;
  return {
    begin() {
      if (timeouts >= MAX_TIMEOUTS_IN_A_ROW) {
        if (nowMs() < nextProbeMs) return undefined;
        nextProbeMs = nowMs() + PROBE_INTERVAL_MS;
      }
      return (hasResponded) => {
        timeouts = hasResponded ? 0 : timeouts + 1;
        if (timeouts === MAX_TIMEOUTS_IN_A_ROW) nextProbeMs = nowMs() + PROBE_INTERVAL_MS;
      };
    },
  };
}
