const REFERENCE_BYTES = 16 * 1024;
const REFERENCE = new Uint8Array(REFERENCE_BYTES).fill(0x61);
/** Short enough that most rounds run without a context switch, even on a busy machine. */
const ROUND_MS = 0.3;
const ROUNDS = 40;
const WARM_UP_MS = 40;

/**
 * The cost of one call of `work`, in bytes that a plain loop sums in the same time, which makes it independent of the
 * machine. Takes the minimum of many short alternating rounds: other load can only add time.
 */
function costInBytes(work: () => unknown): number {
  warmUp(work);
  warmUp(addUp);
  const calls = callsPerRound(work);
  const loops = callsPerRound(addUp);
  let least = Number.POSITIVE_INFINITY;
  let leastOfLoop = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    least = Math.min(least, roundMs(work, calls));
    leastOfLoop = Math.min(leastOfLoop, roundMs(addUp, loops));
  }
  return (least / calls / (leastOfLoop / loops)) * REFERENCE_BYTES;
}

/** The minimum cost over several tries; stops early once it is within `bound`. */
export function lowestCost(work: () => unknown, bound: number, tries = 4): number {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < tries && least > bound; attempt++) {
    least = Math.min(least, costInBytes(work));
  }
  return least;
}

let sink = 0;

function addUp(): void {
  let sum = 0;
  for (let at = 0; at < REFERENCE.length; at++) sum += REFERENCE[at] ?? 0;
  sink = (sink + sum) & 0xffff;
}

function warmUp(work: () => unknown): void {
  const until = performance.now() + WARM_UP_MS;
  do work();
  while (performance.now() < until);
}

function callsPerRound(work: () => unknown): number {
  let calls = 1;
  for (;;) {
    const took = Math.min(roundMs(work, calls), roundMs(work, calls), roundMs(work, calls));
    if (took >= ROUND_MS) return calls;
    calls = took > ROUND_MS / 8 ? Math.ceil((calls * ROUND_MS) / took) : calls * 4;
  }
}

function roundMs(work: () => unknown, calls: number): number {
  const start = performance.now();
  for (let call = 0; call < calls; call++) work();
  return performance.now() - start;
}
