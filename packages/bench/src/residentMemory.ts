import { readFileSync } from 'node:fs';

/** MiB of a process that are its own (`RssAnon`) and in all (`VmRSS`); undefined where the system does not tell. */
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
