import { readFileSync } from 'node:fs';
import { totalmem } from 'node:os';

/** The limit of the container as it sees itself: cgroup v2, and v1. */
const CGROUP_FILES = ['/sys/fs/cgroup/memory.max', '/sys/fs/cgroup/memory/memory.limit_in_bytes'];

/** The bytes of memory that the processes of this container may take together; those of the machine without a limit. */
export function memoryLimitBytes(read: (file: string) => number | undefined = readNumber): number {
  // Node looks up the process's own cgroup; a limit that is not set is 0, undefined or larger than any machine.
  const limits = [process.constrainedMemory?.(), ...CGROUP_FILES.map(read)];
  return Math.min(totalmem(), ...limits.map((limit) => limit || Number.POSITIVE_INFINITY));
}

/** Undefined if there is no such file, or no number in it: `max` means that there is no limit. */
function readNumber(file: string): number | undefined {
  try {
    const bytes = Number(readFileSync(file, 'utf8'));
    return Number.isFinite(bytes) ? bytes : undefined;
  } catch {
    return undefined;
  }
}
