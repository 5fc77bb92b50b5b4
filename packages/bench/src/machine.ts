import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';

/** Where something is measured, and how busy that was: figures of a machine that others share are worth less. */
export function machineLine(): string {
  const [cpu] = cpus();
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} × ${cpu?.model.trim() ?? 'unknown CPU'}, ${gib} GiB, Node ${process.version}`;
}

/** The load averages of now: 1, 5 and 15 minutes. */
export function loadLine(): string {
  return `load average ${loadavg()
    .map((load) => load.toFixed(1))
    .join(', ')}`;
}
