const REFERENCE_BYTES = 16 * 1024;
const REFERENCE = new Uint8Array(REFERENCE_BYTES).fill(0x61);
/** So short that most of them run without another process in between, however busy the machine is. */
const ROUND_MS = 0.3;
const ROUNDS = 40;
const WARM_UP_MS = 40;

/**
 * What one call of `work` costs, in bytes that a plain loop adds up in the same time, in the same process: no clock's
 * figure, so no machine's. The least of many short rounds of each, in turns: whatever else runs can only add to one.
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

/** The least that it costs in some tries: what is too dear in each of them is too dear. */
export function leastCost(work: () => unknown, bound: number, tries = 4): number {
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
