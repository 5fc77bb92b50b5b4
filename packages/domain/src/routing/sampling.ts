/** Random numbers in [0, 1) from a seed (Mulberry32). Not for secrets. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Samples the standard normal distribution (Box–Muller). `random` returns numbers in [0, 1). */
export function sampleNormal(random: () => number): number {
  return Math.sqrt(-2 * Math.log(1 - random())) * Math.cos(2 * Math.PI * random());
}

/** Samples the beta distribution. Both parameters are above 0. */
export function sampleBeta(a: number, b: number, random: () => number): number {
  const x = sampleGamma(a, random);
  const y = sampleGamma(b, random);
  // Both may underflow to 0.
  return x + y > 0 ? x / (x + y) : a / (a + b);
}

/** Marsaglia and Tsang, "A simple method for generating gamma variables", 2000. */
function sampleGamma(shape: number, random: () => number): number {
  if (shape < 1) return sampleGamma(shape + 1, random) * (1 - random()) ** (1 / shape);
  const d = shape - 1 / 3;
  const c = 1 / Math.sqrt(9 * d);
  // More than 95 % of the tries are accepted. The bound is for a broken source of randomness.
  for (let tries = 0; tries < 1_000; tries++) {
    const x = sampleNormal(random);
    const v = (1 + c * x) ** 3;
    if (v > 0 && Math.log(1 - random()) < 0.5 * x * x + d - d * v + d * Math.log(v)) return d * v;
  }
  return shape;
}
