/** The settings of a long form from `pnpm test:faults`, and its log. */
export interface LongForm {
  readonly seed: number;
  readonly minutes: number;
  /** Monotonic, in milliseconds. */
  readonly endsAt: number;
  log(kind: string, text: string): void;
}

export function longForm(env: NodeJS.ProcessEnv): LongForm {
  const [seed, minutes] = [Number(env.FAULTS_SEED), Number(env.FAULTS_MINUTES)];
  const began = performance.now();
  const log = (kind: string, text: string) => {
    const seconds = ((performance.now() - began) / 1_000).toFixed(1).padStart(7);
    process.stdout.write(`${seconds} s  ${kind.padEnd(8)} ${text}\n`);
  };
  log('seed', `${seed}, for ${minutes} minutes`);
  return { seed, minutes, endsAt: began + minutes * 60_000, log };
}
