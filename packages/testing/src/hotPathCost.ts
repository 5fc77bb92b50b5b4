import { expect } from 'vitest';

/** What is parsed for comparison. V8 parses JSON in C++, so it takes as long whatever the compiler of JavaScript has learned. */
const REFERENCE = JSON.stringify(
  Array.from({ length: 200 }, (_, at) => ({ id: `chatcmpl-${at}`, choices: [{ index: at, text: ' word' }] })),
);
/** Short enough that most rounds run without a context switch, even on a busy machine. */
const ROUND_MS = 0.3;
const ROUNDS = 40;
const WARM_UP_MS = 40;

/**
 * The cost of one call of `work`, in bytes of JSON that are parsed in the same time, which makes it independent of the
 * machine. Takes the minimum of many short alternating rounds: other load can only add time.
 */
function costInBytes(work: () => unknown): number {
  warmUp(work);
  warmUp(parse);
  const calls = callsPerRound(work);
  const parses = callsPerRound(parse);
  let least = Number.POSITIVE_INFINITY;
  let leastOfParsing = Number.POSITIVE_INFINITY;
  for (let round = 0; round < ROUNDS; round++) {
    least = Math.min(least, roundMs(work, calls));
    leastOfParsing = Math.min(leastOfParsing, roundMs(parse, parses));
  }
  return (least / calls / (leastOfParsing / parses)) * REFERENCE.length;
}

/** Between the noise of a busy machine, which is a tenth, and what must fail. */
const SLACK = 1.75;
const IS_NODE_20 = Number(process.versions.node.split('.')[0]) < 22;

/** Expects that `work` costs no more than it was `measured` to: on Node 20, and on 24 where that is another figure. */
export function expectCost(
  what: string,
  work: () => unknown,
  ...measured: [node20: number, node24?: number]
): void {
  const [node20, node24 = node20] = measured;
  const bound = SLACK * (IS_NODE_20 ? node20 : node24);
  const cost = lowestCost(work, bound);
  expect(cost, `${what} costs as much as parsing ${cost.toFixed(0)} bytes of JSON`).toBeLessThan(bound);
}

/** The minimum cost over several tries; stops early once it is within `bound`. */
function lowestCost(work: () => unknown, bound: number, tries = 4): number {
  let least = Number.POSITIVE_INFINITY;
  for (let attempt = 0; attempt < tries && least > bound; attempt++) {
    least = Math.min(least, costInBytes(work));
  }
  return least;
}

function parse(): unknown {
  return JSON.parse(REFERENCE);
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
