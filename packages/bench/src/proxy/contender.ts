import type { TestProcess, TestRun } from '@weighbridge/testing';
import { type StartedNode, startOwn } from '../service.ts';
import type { LoadOrder } from './loadOrder.ts';

/** Workloads that are measured together: each contender says in which of them it takes part. */
export type Group = 'plain' | 'sizes' | 'streamed' | 'open' | 'keys';

/** Something that requests can go through, on their way to the vendor. */
export interface Contender extends Pick<LoadOrder, 'url' | 'path' | 'headers' | 'tokens' | 'expects'> {
  readonly name: string;
  readonly groups: readonly Group[];
  /** What its CPU is counted of, children too; undefined where that is not known here. */
  readonly pid: number | undefined;
  /** Whether the ledger has to hold its requests. */
  readonly isOurs: boolean;
}

/** A contender that did not take part, and why. */
export interface Absent {
  readonly name: string;
  readonly reason: string;
}

export const CHAT_PATH = '/v1/chat/completions';
export const EVERY_GROUP: readonly Group[] = ['plain', 'sizes', 'streamed', 'open'];

/** One that passes on what it is sent, byte for byte, for anybody. */
export function plainContender(name: string, url: string, pid: number | undefined): Contender {
  return {
    name,
    url,
    path: CHAT_PATH,
    headers: {},
    tokens: ['none'],
    expects: 'same bytes',
    groups: EVERY_GROUP,
    pid,
    isOurs: false,
  };
}

export async function startBareNode(
  run: TestRun,
  vendorUrl: string,
  core: number | undefined,
): Promise<{ readonly contender: Contender; readonly process: TestProcess }> {
  const { url, process }: StartedNode = await startOwn(run, 'proxy/barePipe', { args: [vendorUrl], core });
  return { contender: plainContender('bare Node', url, process.pid), process };
}

/** A service that runs elsewhere, by its URL; it has to send what it is asked to a vendor that answers as ours does. */
export function otherContender(url: string, headers: Readonly<Record<string, string>>): Contender {
  const { origin, pathname, host } = new URL(url);
  const path = pathname === '/' ? CHAT_PATH : pathname;
  return { ...plainContender(host, origin, undefined), path, headers, expects: 'mark' };
}
