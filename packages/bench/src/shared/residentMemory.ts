import { readFileSync } from 'node:fs';

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
