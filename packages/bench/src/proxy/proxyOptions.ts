import { homedir } from 'node:os';
import { join } from 'node:path';
import { InvalidArgumentError } from 'commander';
import type { Cores } from './cores.ts';
import { nginx } from './nginx.ts';
import { portkey } from './portkey.ts';
import type { ProxyOptions } from './proxy.ts';

/** The command line options of the proxy benchmark. */
export interface ProxyFlags {
  readonly quick?: true;
  readonly repeats?: number;
  readonly roundMs?: number;
  readonly keys?: number;
  readonly url?: readonly string[];
  readonly header?: readonly string[];
  /** False: without nginx and Portkey. */
  readonly others: boolean;
  readonly parts: boolean;
  readonly lane?: readonly string[];
  readonly contender?: readonly string[];
  readonly pid?: readonly number[];
}

/** Where other products are installed. */
export const CACHE_FOLDER = join(homedir(), '.cache', 'weighbridge', 'bench');
const FULL = { repeats: 3, roundMs: 1_500, warmUpRequests: 20_000, keys: 10 };
/** Checks that the benchmark works; its figures mean little. */
const QUICK = { repeats: 1, roundMs: 400, warmUpRequests: 300, keys: 1 };

export function proxyOptions(
  flags: ProxyFlags,
  more: Pick<ProxyOptions, 'onProgress'> & { readonly cores: Cores },
): ProxyOptions {
  const { cores, onProgress } = more;
  const effort = flags.quick ? QUICK : FULL;
  const headers = Object.fromEntries((flags.header ?? []).map(headerOf));
  return {
    cores,
    onProgress,
    repeats: flags.repeats ?? effort.repeats,
    roundMs: flags.roundMs ?? effort.roundMs,
    warmUpRequests: effort.warmUpRequests,
    keys: flags.keys ?? effort.keys,
    hasParts: flags.parts && flags.lane === undefined && flags.contender === undefined,
    others: flags.others ? { cacheFolder: CACHE_FOLDER, list: [nginx, portkey] } : undefined,
    extraContenders: (flags.url ?? []).map((url, at) => ({ url, headers, pid: flags.pid?.[at] })),
    lanes: flags.lane,
    contenders: flags.contender,
    recordsWhenIdle: flags.quick !== true,
  };
}

/** `name: value`. */
export function headerOf(text: string): readonly [string, string] {
  const [, name, value] = /^([\w-]+): *(.*)$/.exec(text) ?? [];
  if (name === undefined || value === undefined || /[\r\n]/.test(value)) {
    throw new InvalidArgumentError('a header must have the form "name: value"');
  }
  return [name.toLowerCase(), value];
}
