/**
 * Of a server that may stop to answer: whether the next question is worth its time-out. After some in a row that nobody
 * answered, one in a while goes out as a probe, until one is answered.
 */
export interface Patience {
  /** What it returns is to be called once, when the question was answered or not; undefined: don't ask. */
  begin(): ((isAnswered: boolean) => void) | undefined;
}

const UNANSWERED_IN_A_ROW = 3;
const REST_MS = 1_000;

/** `nowMs` is monotonic. */
export function createPatience(nowMs: () => number): Patience {
  let unanswered = 0;
  let nextProbeMs = 0;
  return {
    begin() {
      if (unanswered >= UNANSWERED_IN_A_ROW) {
        if (nowMs() < nextProbeMs) return undefined;
        nextProbeMs = nowMs() + REST_MS;
      }
      return (isAnswered) => {
        unanswered = isAnswered ? 0 : unanswered + 1;
        if (unanswered === UNANSWERED_IN_A_ROW) nextProbeMs = nowMs() + REST_MS;
      };
    },
  };
}
