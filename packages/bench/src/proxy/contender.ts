import type { TestProcess, TestRun } from '@weighbridge/testing';
import { type StartedNode, startBenchProgram } from '../shared/service.ts';
import { shippedNode } from '../shared/shippedNode.ts';
import type { LoadOrder } from './loadOrder.ts';

/** Workloads that are measured together. Each contender lists the groups in which it takes part. */
export type Group = 'plain' | 'sizes' | 'streamed' | 'open' | 'keys';

/** A way for requests to the vendor: a proxy, or none. */
export interface Contender extends Pick<LoadOrder, 'url' | 'path' | 'headers' | 'tokens' | 'expects'> {
  readonly name: string;
  readonly groups: readonly Group[];
  /** The process whose CPU is counted, with its children; undefined if it is not known. */
  readonly pid: number | undefined;
  /** What it runs on, such as `Node v24.9.0`; undefined if it is not known. */
  readonly runsOn: string | undefined;
  /** Whether the ledger must have its requests. */
  readonly isOurs: boolean;
}

/** A contender that did not take part, and why. */
export interface Absent {
  readonly name: string;
  readonly reason: string;
}

export const CHAT_PATH = '/v1/chat/completions';
export const EVERY_GROUP: readonly Group[] = ['plain', 'sizes', 'streamed', 'open'];

/** A contender that is a process on the Node that ships. */
export function onShippedNode(pid: number): Pick<Contender, 'pid' | 'runsOn'> {
  return { pid, runsOn: `Node ${shippedNode().version}` };
}

/** A contender that passes bytes on unchanged and needs no key. */
export function plainContender(
  name: string,
  url: string,
  { pid, runsOn }: Pick<Contender, 'pid' | 'runsOn'>,
): Contender {
  return {
    name,
    url,
    path: CHAT_PATH,
    headers: {},
    tokens: ['none'],
    expects: 'same bytes',
    groups: EVERY_GROUP,
    pid,
    runsOn,
    isOurs: false,
  };
}

export async function startBareNode(
  run: TestRun,
  vendorUrl: string,
  core: number | undefined,
): Promise<{ readonly contender: Contender; readonly process: TestProcess }> {
  const { url, process }: StartedNode = await startBenchProgram(run, 'proxy/barePipe', {
    args: [vendorUrl],
    core,
  });
  return { contender: plainContender('bare Node', url, onShippedNode(process.pid)), process };
}

/** A service that is already running. It must forward requests to a vendor that responds like the benchmark's. */
export function otherContender(url: string, headers: Readonly<Record<string, string>>): Contender {
  const { origin, pathname, host } = new URL(url);
  const path = pathname === '/' ? CHAT_PATH : pathname;
  return {
    ...plainContender(host, origin, { pid: undefined, runsOn: undefined }),
    path,
    headers,
    expects: 'mark',
  };
}
