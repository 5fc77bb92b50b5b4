import type { TestProcess, TestRun } from '@weighbridge/testing';
import type { Observed } from '../observe/records.ts';
import { type StartedNode, startBenchProgram } from '../shared/service.ts';
import { shippedNode } from '../shared/shippedNode.ts';
import type { LoadOrder } from './loadOrder.ts';

/** Workloads that are measured together. Each contender lists the groups in which it takes part. */
export type Group = 'plain' | 'small' | 'sizes' | 'streamed' | 'open' | 'keys';

/** A way for requests to the vendor: a proxy, or none. */
export interface Contender
  extends Pick<LoadOrder, 'url' | 'path' | 'headers' | 'tokens' | 'expects' | 'model'>,
    Observed {
  readonly name: string;
  readonly groups: readonly Group[];
  /** The process whose CPU is counted, with its children; undefined if it is not known. */
  readonly pid: number | undefined;
  /** What it runs on, such as `Node v24.9.0`; undefined if it is not known. */
  readonly runsOn: string | undefined;
  /** Its version and settings, if it is another product. */
  readonly howRun?: string;
  /** Whether it checks keys, limits and budgets. */
  readonly isGoverned?: boolean;
  /** Whether the ledger must have its requests. */
  readonly isOurs: boolean;
  /** Whether it may be stopped while another is measured. */
  readonly mayBeStopped?: boolean;
}

/** A contender that did not take part, and why. */
export interface Absent {
  readonly name: string;
  readonly reason: string;
}

export interface OtherOptions {
  /** Where packages are installed, for later runs too. */
  readonly cacheFolder: string;
  readonly core: number | undefined;
  /** For a Node process: they load the observer. */
  readonly nodeArgs: readonly string[];
}

export interface StartedOther {
  readonly contender: Contender;
  readonly process: TestProcess;
}

/** Another product. */
export interface Other {
  readonly name: string;
  /** Installs what it needs from the network, so that `start` works without. */
  prepare?(cacheFolder: string): Promise<void>;
  start(run: TestRun, vendorUrl: string, options: OtherOptions): Promise<StartedOther | Absent>;
}

/** No proxy: what the vendor itself takes. */
export const DIRECT = 'direct';
export const BARE = 'bare Node';
export const CHAT_PATH = '/v1/chat/completions';
export const EVERY_GROUP: readonly Group[] = ['plain', 'small', 'sizes', 'streamed', 'open'];

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
  { core, nodeArgs }: { readonly core: number | undefined; readonly nodeArgs: readonly string[] },
): Promise<{ readonly contender: Contender; readonly process: TestProcess }> {
  const { url, process }: StartedNode = await startBenchProgram(run, 'proxy/barePipe', {
    args: [vendorUrl],
    core,
    nodeArgs,
  });
  const contender = plainContender(BARE, url, onShippedNode(process.pid));
  return { contender: { ...contender, isObserved: true, mayBeStopped: true }, process };
}

/** A service that the caller started. */
export interface RunningGateway {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  /** Of its first process, if its CPU shall be measured. */
  readonly pid: number | undefined;
}

/** A service that is already running. It must forward requests to a vendor that responds like the benchmark's. */
export function otherContender({ url, headers, pid }: RunningGateway): Contender {
  const { origin, pathname, host } = new URL(url);
  const path = pathname === '/' ? CHAT_PATH : pathname;
  return { ...plainContender(host, origin, { pid, runsOn: undefined }), path, headers, expects: 'mark' };
}
