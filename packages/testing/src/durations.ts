import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** Seconds that a test file took, by its path from the repository's root. */
export type Durations = Readonly<Record<string, number>>;

const REPOSITORY = fileURLToPath(new URL('../../../', import.meta.url));
/** Those of the last runs on this machine. */
const CACHE = join(REPOSITORY, 'node_modules/.cache/weighbridge/testDurations.json');
/** Committed, for the first run of a clone, and for shards, which all need the same. Files below a second are left out. */
const SEED = fileURLToPath(new URL('../durations.json', import.meta.url));

/** What a file probably takes that no run has met yet. */
const GUESSES: readonly [RegExp, number][] = [
  [/\.all\.test\.ts$/, 60],
  [/\.clients\.ts$/, 30],
  [/\.e2e\.test\.ts$/, 20],
  [/\.integration\.test\.ts$/, 4],
];

export const readSeed = (): Durations => readDurations(SEED);

/** The last run's durations where it ran a file, else the committed ones. */
export const readLastDurations = (cache = CACHE): Durations => ({ ...readSeed(), ...readDurations(cache) });

/** Keeps the durations of a run. Files that no longer exist are dropped, so that the cache can't grow. */
export function keepDurations(ran: Durations, cache = CACHE, repository = REPOSITORY): void {
  const kept = Object.entries({ ...readDurations(cache), ...ran }).filter(([path]) =>
    existsSync(join(repository, path)),
  );
  mkdirSync(dirname(cache), { recursive: true });
  // Renamed, since two runs may end at the same time.
  const written = `${cache}.${process.pid}`;
  writeFileSync(written, `${JSON.stringify(Object.fromEntries(kept.sort()), null, 1)}\n`);
  renameSync(written, cache);
}

export function expectedSeconds(path: string, durations: Durations): number {
  return durations[path] ?? GUESSES.find(([pattern]) => pattern.test(path))?.[1] ?? 1;
}

/** The slowest files, slowest first, one line each. */
export function slowestLines(ran: Durations, count: number): string[] {
  const slowest = Object.entries(ran)
    .sort(([, one], [, other]) => other - one)
    .slice(0, count);
  return slowest.map(([path, seconds]) => `${seconds.toFixed(1).padStart(7)} s  ${path}`);
}

/**
 * Divides files into shards of about the same length: the longest file goes first, each to the shard that has least. The
 * same paths and durations always give the same shards.
 */
export function divide(paths: readonly string[], count: number, durations: Durations): string[][] {
  const shards = Array.from({ length: count }, () => ({ paths: [] as string[], seconds: 0 }));
  const seconds = (path: string) => expectedSeconds(path, durations);
  const longestFirst = [...paths].sort(
    (one, other) => seconds(other) - seconds(one) || (one < other ? -1 : one > other ? 1 : 0),
  );
  for (const path of longestFirst) {
    const least = shards.reduce((best, shard) => (shard.seconds < best.seconds ? shard : best));
    least.paths.push(path);
    least.seconds += seconds(path);
  }
  return shards.map((shard) => shard.paths);
}

/** A file that is missing or damaged, as one written by half, counts as empty: only the order depends on it. */
function readDurations(file: string): Durations {
  try {
    const read: unknown = JSON.parse(readFileSync(file, 'utf8'));
    if (typeof read !== 'object' || read === null) return {};
    return Object.fromEntries(Object.entries(read).filter(([, seconds]) => typeof seconds === 'number'));
  } catch {
    return {};
  }
}
