import { mkdtemp, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import {
  createTestDatabase,
  freePort,
  startNats,
  startProcess,
  type TestProcess,
  type TestRun,
} from '@weighbridge/testing';
import { findPostmaster } from './cpu.ts';
import { inRealTime } from './scheduling.ts';
import { shippedNode } from './shippedNode.ts';

const READY_TIMEOUT_MS = 60_000;
const CONTROL_PLANE_TOKEN = 'the token of the measured apps';

type App = 'control-plane' | 'data-plane' | 'metering';

/** As in the chart and the compose file. */
export const METERING_NODE_OPTIONS = '--max-semi-space-size=32';
const DATA_PLANE_NODE_OPTIONS = '--max-semi-space-size=16';

/** Starts an app from its built entry, as a user does, a proxy on the Node that ships; `nodeArgs` come before the entry. */
export async function startBuiltApp(
  run: TestRun,
  app: App,
  env: Readonly<Record<string, string>>,
  options: { readonly nodeArgs?: readonly string[]; readonly core?: Core } = {},
): Promise<TestProcess> {
  const entry = fileURLToPath(new URL(`../../../../apps/${app}/dist/main.js`, import.meta.url));
  const [command = '', ...args] = pinned(options.core, [
    app === 'data-plane' ? shippedNode().path : process.execPath,
    ...(options.nodeArgs ?? []),
    entry,
  ]);
  const readyWhen = /(plane|metering) is ready/;
  const settings = { ...(app !== 'metering' && { CONTROL_PLANE_TOKEN }), ...env };
  return await startProcess({ command, args, env: settings, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
}

/** The command, restricted to these cores if any are given. */
export function pinned(core: Core, command: readonly string[]): readonly string[] {
  return core === undefined ? command : ['taskset', '-c', String(core), ...command];
}

type Core = number | readonly number[] | undefined;

export interface ControlPlane {
  readonly process: TestProcess;
  /** Host and port of its gRPC. */
  readonly address: string;
  readonly url: string;
  readonly metricsUrl: string;
  readonly operatorKey: string;
}

export async function startControlPlane(
  run: TestRun,
  env: { readonly DATABASE_URL: string } & Readonly<Record<string, string>>,
): Promise<ControlPlane> {
  const [port, grpcPort, metricsPort] = [await freePort(), await freePort(), await freePort()];
  const keyFile = join(await mkdtemp(join(run.folder, 'control-plane-')), 'operator-key');
  const process = await startBuiltApp(run, 'control-plane', {
    ...env,
    PORT: String(port),
    GRPC_PORT: String(grpcPort),
    METRICS_PORT: String(metricsPort),
    OPERATOR_KEY_FILE: keyFile,
  });
  return {
    process,
    address: `127.0.0.1:${grpcPort}`,
    url: `http://127.0.0.1:${port}`,
    metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
    operatorKey: (await readFile(keyFile, 'utf8')).trim(),
  };
}

/** Calls the operator API; throws unless it answers with a 2xx. */
export async function manage(
  { url, operatorKey }: Pick<ControlPlane, 'url' | 'operatorKey'>,
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE',
  path: string,
  body?: object,
): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method,
    headers: {
      authorization: `Bearer ${operatorKey}`,
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  });
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as Record<string, unknown>;
}

export interface StartedNode {
  readonly url: string;
  readonly process: TestProcess;
}

type BenchProgram =
  | 'shared/mockVendor'
  | 'shared/plainVendor'
  | 'visible/diskSyncer'
  | 'proxy/barePipe'
  | 'proxy/fastVendor'
  | 'proxy/loadGenerator'
  | 'translation/timedVendor';

/** Starts a program of this package in a separate process, and waits until it prints its URL. */
export async function startBenchProgram(
  run: TestRun,
  program: BenchProgram,
  options: {
    readonly args?: readonly string[];
    readonly core?: number | undefined;
    readonly nodeArgs?: readonly string[];
    /** Where it is permitted. */
    readonly realTimePriority?: number | undefined;
  } = {},
): Promise<StartedNode> {
  // The built file, even if this module runs from source.
  const entry = fileURLToPath(new URL(`../../dist/${program}.js`, import.meta.url));
  const node = [shippedNode().path, ...(options.nodeArgs ?? []), entry, ...(options.args ?? [])];
  const [command = '', ...args] = inRealTime(options.realTimePriority, pinned(options.core, node));
  const readyWhen = /is ready at (\S+)\n/;
  const started = await startProcess({ command, args, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
  const [, url = ''] = readyWhen.exec(started.output()) ?? [];
  return { url, process: started };
}

/** Postgres, NATS, a vendor, the control plane and a metering worker: everything but the proxies. */
export interface Service {
  readonly controlPlane: ControlPlane;
  readonly metering: TestProcess;
  readonly vendor: StartedNode;
  readonly databaseUrl: string;
  readonly natsUrl: string;
  /** The pids of the processes that record usage: NATS, Postgres and metering. */
  readonly recorders: readonly number[];
  /** Stops everything, in reverse order of its start. */
  close(): Promise<void>;
}

export async function startService(
  run: TestRun,
  vendorKind: 'shared/mockVendor' | 'shared/plainVendor' | 'proxy/fastVendor' | 'translation/timedVendor',
  options: { readonly vendorPriority?: number | undefined } = {},
): Promise<Service> {
  const closing: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const closeOne of closing.splice(0).reverse()) await closeOne();
  };
  try {
    const database = await createTestDatabase(run);
    closing.push(() => database.drop());
    const nats = await startNats({}, run);
    closing.push(() => nats.stop());
    const vendor = await startBenchProgram(run, vendorKind, { realTimePriority: options.vendorPriority });
    closing.push(() => vendor.process.stop());
    const controlPlane = await startControlPlane(run, {
      DATABASE_URL: database.url,
      MOCK_VENDOR_URL: vendor.url,
      // For connectors that a scenario adds, and what issues tokens for them.
      ALLOWED_UPSTREAM_HOSTS: new URL(vendor.url).hostname,
    });
    closing.push(() => controlPlane.process.stop());
    const metering = await startBuiltApp(run, 'metering', {
      DATABASE_URL: database.url,
      NATS_URL: nats.url,
      PORT: '0',
      NODE_OPTIONS: METERING_NODE_OPTIONS,
    });
    closing.push(() => metering.stop());
    const { url: databaseUrl } = database;
    const postgres = await findPostmaster(databaseUrl);
    const recorders = [nats.pid, metering.pid, postgres].filter((pid) => pid !== undefined);
    return { controlPlane, metering, vendor, databaseUrl, natsUrl: nats.url, recorders, close };
  } catch (error) {
    await close();
    throw error;
  }
}

export interface RunningProxy {
  readonly process: TestProcess;
  readonly url: string;
  /** With PROCESSES, of its first process. */
  readonly metricsUrl: string;
  readonly spoolDir: string;
}

export async function startProxy(
  run: TestRun,
  service: Service,
  name: string,
  options: Parameters<typeof startBuiltApp>[3] & { readonly processes?: number } = {},
): Promise<RunningProxy> {
  const [port, metricsPort] = [await freePort(), await freePort()];
  // Each in its own parent folder: a proxy adopts the orphaned spools beside its own.
  const spoolDir = join(await mkdtemp(join(run.folder, 'spool-')), name);
  const env = {
    NODE_OPTIONS: DATA_PLANE_NODE_OPTIONS,
    NATS_URL: service.natsUrl,
    CONTROL_PLANE_ADDRESS: service.controlPlane.address,
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    PROXY_NAME: name,
    SPOOL_DIR: spoolDir,
    PROCESSES: String(options.processes ?? 1),
  };
  const process = await startBuiltApp(run, 'data-plane', env, options);
  return {
    process,
    url: `http://127.0.0.1:${port}`,
    metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
    spoolDir,
  };
}

/** Issues keys with the scopes `inference` and `usage:read`, on one policy that never runs out; returns their secrets. */
export async function issueKeys(service: Service, names: readonly string[]): Promise<string[]> {
  const policyId = await createPolicy(service, { name: 'bench', ...AMPLE_BUDGET });
  const keys: string[] = [];
  for (const name of names) keys.push(await issueKey(service, name, policyId));
  return keys;
}

/** Calls of the operator API at once. */
const AT_ONCE = 8;

/** Issues this many, a few at once. In the order of their numbers. */
export async function issueAll<Result>(
  count: number,
  issue: (at: number) => Promise<Result>,
): Promise<Result[]> {
  const issued: Result[] = new Array(count);
  let next = 0;
  const worker = async () => {
    for (let at = next++; at < count; at = next++) issued[at] = await issue(at);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
  return issued;
}

/** A limit that no benchmark reaches. */
export const AMPLE_BUDGET = {
  limit_micro_usd: 1_000_000_000_000,
  window: 'month',
  counter_scope: 'principal',
} as const;

/** Creates a policy and returns its id. */
export async function createPolicy({ controlPlane }: Service, settings: object): Promise<string> {
  return String((await manage(controlPlane, 'POST', '/api/v1/policies', settings)).id);
}

/** Issues a key and returns its secret. */
export async function issueKey(service: Service, name: string, policyId: string): Promise<string> {
  return (await createKey(service, name, policyId)).secret;
}

export async function createKey(
  { controlPlane }: Service,
  name: string,
  policyId: string,
): Promise<{ readonly id: string; readonly secret: string }> {
  const scopes = ['inference', 'usage:read'];
  const body = { name, principal_id: name, policy_id: policyId, scopes };
  const { id, key } = await manage(controlPlane, 'POST', '/api/v1/keys', body);
  return { id: String(id), secret: String(key) };
}
