/** How many times as large the larger input is: quadratic work takes this many times as long on it as linear work. */
const TIMES = 8;
/** Between 1, plus what caches and the garbage collector add to large inputs, and `TIMES`. */
const MAX_RATIO = 4;
/** Shorter work is repeated for as long. */
const LEAST_MS = 2;
const LEAST_TRIES = 4;
const MOST_TRIES = 15;
/** On a busy machine, as many tries of milliseconds may all be interrupted: no fewer than fit into this. */
const LEAST_TRYING_MS = 3_000;
/** Tries of work that takes seconds differ little. */
const MOST_MS = 30_000;

/**
 * Throws unless work takes time in proportion to the size of its input, or less. `prepare` makes an input of a size, and returns
 * the work on it. One input of `size` is compared with eight of an eighth in the same run: linear work takes as long on both,
 * however fast the machine is, and quadratic work takes eight times as long on the large one. Other processes decide nothing:
 * they interrupt both as often, since both should take as long, and the least of several tries counts. Choose a size for which
 * quadratic work would take seconds, not hours.
 *
 * This file imports nothing, so that packages below this one can import it in their tests by its path. As a dependency, each
 * would have to be built after this package, and again after each of its changes.
 */
export async function expectLinear(
  size: number,
  prepare: (size: number) => (() => unknown) | Promise<() => unknown>,
): Promise<void> {
  const small = await prepare(Math.ceil(size / TIMES));
  const large = await prepare(size);
  // The compiler learns from these first calls, so they don't count.
  const times = Math.ceil(LEAST_MS / Math.max(await tookMs(small, TIMES), LEAST_MS / 1_000));
  await large();
  let leastOfSmall = Number.POSITIVE_INFINITY;
  let leastOfLarge = Number.POSITIVE_INFINITY;
  const began = performance.now();
  for (let tries = 1; ; tries++) {
    leastOfSmall = Math.min(leastOfSmall, await tookMs(small, TIMES * times));
    leastOfLarge = Math.min(leastOfLarge, await tookMs(large, times));
    if (tries < LEAST_TRIES) continue;
    if (leastOfLarge <= MAX_RATIO * leastOfSmall) return;
    const triedMs = performance.now() - began;
    if (triedMs > MOST_MS || (tries >= MOST_TRIES && triedMs > LEAST_TRYING_MS)) break;
  }
  const ratio = (leastOfLarge / leastOfSmall).toFixed(1);
  throw new Error(
    `An input of ${size} took ${ratio} times as long as eight of an eighth: the work is not linear.`,
  );
}

async function tookMs(work: () => unknown, times: number): Promise<number> {
  const began = performance.now();
  for (let time = 0; time < times; time++) await work();
  return performance.now() - began;
}
