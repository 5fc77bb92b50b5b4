import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { eventually, type FeedServer, startFeedServer } from '@weighbridge/testing';
import { type Cluster, startCluster } from '../faults/cluster.ts';
import { MEMORY_PROBE } from '../faults/faultyApp.ts';
import { manage, type Service } from '../mainJob.ts';
import { testedCheckout } from '../processes.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';

/** The product as a tenant meets it: addresses, and nothing of its inside but the memory that the system shows. */
export interface Product extends Service {
  readonly mode: Mode;
  /** The gRPC services that proxies call: `host:port`; undefined if they are within one process. */
  readonly controlPlaneAddress: string | undefined;
  /** The processes that a tenant can reach. */
  readonly pids: { readonly inference: number; readonly management: number };
  /** Their resident memory when they had just become ready. */
  readonly residentAtStart: { readonly inference: number; readonly management: number };
  /** NATS with the user of each app; undefined in embedded mode, which has none. */
  readonly natsUrls?: Readonly<Record<'data-plane' | 'metering', string>>;
  /** The server of CATALOG_FEED_URL. */
  readonly feed: FeedServer;
  output(): string;
  close(): Promise<void>;
}

type StartedProduct = Omit<Product, 'residentAtStart' | 'feed'>;
export type Mode = 'embedded' | 'distributed';

const SLOW_CLIENTS = { HEADERS_TIMEOUT_MS: '3000', BODY_TIMEOUT_MS: '8000' };
/** A thousand by default: issuing them takes a while. */
export const MAX_KEYS = 100;

/** The simulators run on loopback. */
const MANAGEMENT = {
  ...SLOW_CLIENTS,
  MAX_KEYS_PER_PRINCIPAL: String(MAX_KEYS),
  ALLOWED_UPSTREAM_HOSTS: '127.0.0.1',
  ALLOWED_WEBHOOK_HOSTS: '127.0.0.1',
  BOUND_KEY: 'sk-referenced-0123456789',
  UNLISTED_KEY: 'sk-unlisted-0123456789',
  CREDENTIAL_REF_HOSTS: 'env:BOUND_KEY=api.groq.com',
  WEIGHBRIDGE_KEY_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString('base64'),
};
const INFERENCE = {
  ...SLOW_CLIENTS,
  MEMORY_BUDGET_BYTES: String(96 * 2 ** 20),
  UPSTREAM_MAX_RETRIES: '0',
  DRAIN_TIMEOUT_MS: '1500',
};

export async function startProduct(mode: Mode): Promise<Product> {
  const feed = await startFeedServer();
  const settings = { ...MANAGEMENT, CATALOG_FEED_URL: feed.url };
  const started = await (mode === 'embedded' ? startEmbedded(settings) : startDistributed(settings));
  const { inference, management } = started.pids;
  const residentAtStart = {
    inference: await residentBytes(inference),
    management: await residentBytes(management),
  };
  const close = async () => {
    await started.close();
    await feed.close();
  };
  return { ...started, residentAtStart, feed, close };
}

type Settings = Readonly<Record<string, string>>;

async function startEmbedded(settings: Settings): Promise<StartedProduct> {
  const dataDir = await newDataDir('weighbridge-hostile-');
  const probe = { NODE_OPTIONS: `--import ${MEMORY_PROBE}`, FAULTS_FILE: join(dataDir, 'probe') };
  const { process, service } = await startUp(dataDir, { ...settings, ...INFERENCE, ...probe });
  return {
    ...service,
    mode: 'embedded',
    controlPlaneAddress: undefined,
    pids: { inference: process.pid, management: process.pid },
    output: process.output,
    async close() {
      await process.stop('SIGKILL');
      await removeDataDir(dataDir);
    },
  };
}

async function startDistributed(settings: Settings): Promise<StartedProduct> {
  const cluster: Cluster = await startCluster({
    // Another checkout makes its own schema.
    ownPostgres: testedCheckout !== undefined,
    env: { controlPlane: settings, dataPlane: INFERENCE },
  });
  const [proxy] = cluster.proxies;
  if (!proxy) throw new Error('a cluster has a proxy');
  return {
    managementUrl: cluster.managementUrl,
    inferenceUrl: cluster.inferenceUrl,
    operatorKey: cluster.operatorKey,
    mode: 'distributed',
    controlPlaneAddress: cluster.controlPlaneAddress,
    natsUrls: cluster.nats.urls,
    pids: { inference: proxy.pid, management: cluster.controlPlane.pid },
    output: () => `${cluster.controlPlane.output()}\n${proxy.output()}`,
    close: cluster.close,
  };
}

/** The resident memory of a process. Linux only. */
async function residentBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(/VmRSS:\s+(\d+) kB/.exec(status)?.[1]) * 1024;
}

/** What a process, in embedded mode that of all apps, may have not given back yet of what the cases before did to it. */
const MAX_RETAINED_BYTES = 384 * 2 ** 20;

/**
 * How much a process grows, at most, while `work` runs. Throws if it kept too much of what was before: memory that an earlier
 * attack took, and that was not given back, would hide the next one's.
 */
export async function growthDuring(
  { pids, residentAtStart }: Product,
  part: keyof Product['pids'],
  work: () => Promise<unknown>,
): Promise<number> {
  const allowed = residentAtStart[part] + MAX_RETAINED_BYTES;
  // A heap that has room keeps its garbage, so what counts is what a collection leaves.
  if ((await residentBytes(pids[part])) > allowed) process.kill(pids[part], 'SIGUSR2');
  const before = await eventually(async () => {
    const resident = await residentBytes(pids[part]);
    if (resident > allowed)
      throw new Error(`${part} kept ${resident - residentAtStart[part]} bytes of earlier cases`);
    return resident;
  });
  let most = 0;
  const timer = setInterval(async () => {
    most = Math.max(most, await residentBytes(pids[part]).catch(() => 0));
  }, 10);
  try {
    await work();
    most = Math.max(most, await residentBytes(pids[part]));
  } finally {
    clearInterval(timer);
  }
  return most - before;
}

/** The processor time that a process has used, in seconds; unlike the clock, it does not depend on what else runs. */
export async function cpuSeconds(pid: number): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8');
  // After the name, in parentheses: user and system time are the 14th and 15th fields, in hundredths.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

/** Calls the operator API; throws unless it succeeds. */
export async function operate(product: Product, method: string, path: string, body?: unknown) {
  const answer = await manage(product, method, path, body === undefined ? {} : { body });
  if (answer.status < 300) return answer.body;
  throw new Error(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body).slice(0, 400)}`);
}
