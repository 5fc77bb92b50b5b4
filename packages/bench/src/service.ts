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

const READY_TIMEOUT_MS = 60_000;

type App = 'control-plane' | 'data-plane' | 'metering';

/** As the chart and the compose file start metering. */
export const METERING_NODE_OPTIONS = '--max-semi-space-size=32';

/** An app as a user starts it, from its built entry; `nodeArgs` come before that. */
export async function startBuiltApp(
  run: TestRun,
  app: App,
  env: Readonly<Record<string, string>>,
  options: { readonly nodeArgs?: readonly string[]; readonly core?: Core } = {},
): Promise<TestProcess> {
  const entry = fileURLToPath(new URL(`../../../apps/${app}/dist/main.js`, import.meta.url));
  const [command = '', ...args] = pinned(options.core, [
    process.execPath,
    ...(options.nodeArgs ?? []),
    entry,
  ]);
  const readyWhen = /(plane|metering) is ready/;
  return await startProcess({ command, args, env: { ...env }, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
}

/** A command that runs on one core only, or some, where they are named. */
export function pinned(core: Core, command: readonly string[]): readonly string[] {
  return core === undefined ? command : ['taskset', '-c', String(core), ...command];
}

type Core = number | readonly number[] | undefined;

export interface ControlPlane {
  readonly process: TestProcess;
  /** Host and port of its gRPC. */
  readonly address: string;
  readonly url: string;
  readonly operatorKey: string;
}

export async function startControlPlane(
  run: TestRun,
  env: { readonly DATABASE_URL: string } & Readonly<Record<string, string>>,
): Promise<ControlPlane> {
  const [port, grpcPort] = [await freePort(), await freePort()];
  const keyFile = join(await mkdtemp(join(run.folder, 'control-plane-')), 'operator-key');
  const process = await startBuiltApp(run, 'control-plane', {
    ...env,
    PORT: String(port),
    GRPC_PORT: String(grpcPort),
    OPERATOR_KEY_FILE: keyFile,
  });
  return {
    process,
    address: `127.0.0.1:${grpcPort}`,
    url: `http://127.0.0.1:${port}`,
    operatorKey: (await readFile(keyFile, 'utf8')).trim(),
  };
}

/** Calls the operator API; throws unless it answers with a 2xx. */
export async function manage(
  { url, operatorKey }: Pick<ControlPlane, 'url' | 'operatorKey'>,
  method: 'GET' | 'POST' | 'DELETE',
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

type OwnProgram =
  | 'mockVendorMain'
  | 'plainVendor'
  | 'proxy/barePipe'
  | 'proxy/fastVendor'
  | 'proxy/loadGenerator';

/** One of the benchmark's own programs, which says where it listens, in a process of its own. */
export async function startOwn(
  run: TestRun,
  program: OwnProgram,
  options: { readonly args?: readonly string[]; readonly core?: number | undefined } = {},
): Promise<StartedNode> {
  // From the built files, also where this one is not.
  const entry = fileURLToPath(new URL(`../dist/${program}.js`, import.meta.url));
  const [command = '', ...args] = pinned(options.core, [process.execPath, entry, ...(options.args ?? [])]);
  const readyWhen = /is ready at (\S+)\n/;
  const started = await startProcess({ command, args, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
  const [, url = ''] = readyWhen.exec(started.output()) ?? [];
  return { url, process: started };
}

/** Postgres, NATS, a vendor, the control plane and a metering worker: all but the proxies. */
export interface Service {
  readonly controlPlane: ControlPlane;
  readonly metering: TestProcess;
  readonly vendor: StartedNode;
  readonly databaseUrl: string;
  readonly natsUrl: string;
  /** The processes that take in usage: NATS, Postgres and metering. */
  readonly recorders: readonly number[];
  /** What is closed last was opened first. */
  close(): Promise<void>;
}

export async function startService(
  run: TestRun,
  vendorKind: 'mockVendorMain' | 'plainVendor' | 'proxy/fastVendor',
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
    const vendor = await startOwn(run, vendorKind);
    closing.push(() => vendor.process.stop());
    const controlPlane = await startControlPlane(run, {
      DATABASE_URL: database.url,
      MOCK_VENDOR_URL: vendor.url,
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
  readonly spoolDir: string;
}

export async function startProxy(
  run: TestRun,
  service: Service,
  name: string,
  options: Parameters<typeof startBuiltApp>[3] & { readonly processes?: number } = {},
): Promise<RunningProxy> {
  const port = await freePort();
  // A parent of its own: proxies side by side take over each other's spools.
  const spoolDir = join(await mkdtemp(join(run.folder, 'spool-')), name);
  const env = {
    NATS_URL: service.natsUrl,
    CONTROL_PLANE_ADDRESS: service.controlPlane.address,
    PORT: String(port),
    PROXY_NAME: name,
    SPOOL_DIR: spoolDir,
    PROCESSES: String(options.processes ?? 1),
  };
  const process = await startBuiltApp(run, 'data-plane', env, options);
  return { process, url: `http://127.0.0.1:${port}`, spoolDir };
}

/** A key that may infer and see its usage, on a policy with a limit that nobody reaches; returns its secret. */
export async function issueKeys(service: Service, names: readonly string[]): Promise<string[]> {
  const policyId = await createPolicy(service, { name: 'bench', ...AMPLE_BUDGET });
  const keys: string[] = [];
  for (const name of names) keys.push(await issueKey(service, name, policyId));
  return keys;
}

/** A limit that nobody reaches. */
export const AMPLE_BUDGET = {
  limit_micro_usd: 1_000_000_000_000,
  window: 'month',
  counter_scope: 'principal',
} as const;

/** Returns its id. */
export async function createPolicy({ controlPlane }: Service, settings: object): Promise<string> {
  return String((await manage(controlPlane, 'POST', '/api/v1/policies', settings)).id);
}

/** Returns its secret. */
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
