/** The settings of a long form from `pnpm test:faults`, and its log. */
export interface LongForm {
  readonly seed: number;
  readonly minutes: number;
  /** Monotonic, in milliseconds. */
  readonly endsAt: number;
  /** A moment as the log has it. */
  inLog(atMs: number): string;
  log(kind: string, text: string): void;
}

export function longForm(env: NodeJS.ProcessEnv): LongForm {
  const [seed, minutes] = [Number(env.FAULTS_SEED), Number(env.FAULTS_MINUTES)];
  const began = performance.now();
  const inLog = (atMs: number) => `${((atMs - began) / 1_000).toFixed(1)} s`;
  const log = (kind: string, text: string) => {
    process.stdout.write(`${inLog(performance.now()).padStart(9)}  ${kind.padEnd(8)} ${text}\n`);
  };
  log('seed', `${seed}, for ${minutes} minutes`);
  return { seed, minutes, endsAt: began + minutes * 60_000, inLog, log };
}
