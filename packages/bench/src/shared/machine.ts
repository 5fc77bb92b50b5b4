import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';

/** The machine, for the head of a report: cores, CPU model, memory and Node's version. */
export function machineLine(): string {
  const [cpu] = cpus();
  const gib = Math.round(totalmem() / 2 ** 30);
  return `${availableParallelism()} × ${cpu?.model.trim() ?? 'unknown CPU'}, ${gib} GiB, Node ${process.version}`;
}

/** The current load averages over 1, 5 and 15 minutes. Figures of a busy machine are worth less. */
export function loadLine(): string {
  return `load average ${loadavg()
    .map((load) => load.toFixed(1))
    .join(', ')}`;
}
