import { readFileSync } from 'node:fs';
import { processTree } from './cpu.ts';

/** Resident MiB of a process: its private memory (`RssAnon`) and all of it (`VmRSS`); undefined if the system has no `/proc`. */
export function residentMiB(pid: number): { readonly own: number; readonly all: number } | undefined {
  let status: string;
  try {
    status = readFileSync(`/proc/${pid}/status`, 'utf8');
  } catch {
    return undefined;
  }
  const kib = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB$`, 'm').exec(status)?.[1] ?? 0);
  return { own: kib('RssAnon') / 1024, all: kib('VmRSS') / 1024 };
}

/** Resident MiB of a process and its descendants; NaN if the system does not report them. */
export function residentMiBOfTree(pid: number): number {
  const sizes = processTree(pid).flatMap((one) => residentMiB(one)?.all ?? []);
  return sizes.length === 0 ? Number.NaN : sizes.reduce((sum, size) => sum + size, 0);
}
