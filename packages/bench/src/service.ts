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

const READY_TIMEOUT_MS = 60_000;

type App = 'control-plane' | 'data-plane' | 'metering';

/** An app as a user starts it, from its built entry; `nodeArgs` come before that. */
export async function startBuiltApp(
  run: TestRun,
  app: App,
  env: Readonly<Record<string, string>>,
  options: { readonly nodeArgs?: readonly string[]; readonly core?: number | undefined } = {},
): Promise<TestProcess> {
  const entry = fileURLToPath(new URL(`../../../apps/${app}/dist/main.js`, import.meta.url));
  const pinned = options.core === undefined ? [] : ['taskset', '-c', String(options.core)];
  const [command = '', ...args] = [...pinned, process.execPath, ...(options.nodeArgs ?? []), entry];
  const readyWhen = /(plane|metering) is ready/;
  return await startProcess({ command, args, env: { ...env }, readyWhen, timeoutMs: READY_TIMEOUT_MS }, run);
}

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
async function manage(
  { url, operatorKey }: Pick<ControlPlane, 'url' | 'operatorKey'>,
  method: 'GET' | 'POST',
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

/** A vendor in a process of its own. */
async function startVendor(
  run: TestRun,
  kind: 'mockVendorMain' | 'plainVendor',
): Promise<{ readonly url: string; readonly process: TestProcess }> {
  const entry = fileURLToPath(new URL(`./${kind}.js`, import.meta.url));
  const readyWhen = /is ready at (\S+)\n/;
  const started = await startProcess(
    { command: process.execPath, args: [entry], readyWhen, timeoutMs: READY_TIMEOUT_MS },
    run,
  );
  const [, url = ''] = readyWhen.exec(started.output()) ?? [];
  return { url, process: started };
}

/** Postgres, NATS, a vendor, the control plane and a metering worker: all but the proxies. */
export interface Service {
  readonly controlPlane: ControlPlane;
  readonly metering: TestProcess;
  readonly databaseUrl: string;
  readonly natsUrl: string;
  /** What is closed last was opened first. */
  close(): Promise<void>;
}

export async function startService(
  run: TestRun,
  vendorKind: 'mockVendorMain' | 'plainVendor',
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
    const vendor = await startVendor(run, vendorKind);
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
    });
    closing.push(() => metering.stop());
    return { controlPlane, metering, databaseUrl: database.url, natsUrl: nats.url, close };
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
  options: Parameters<typeof startBuiltApp>[3] = {},
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
  };
  const process = await startBuiltApp(run, 'data-plane', env, options);
  return { process, url: `http://127.0.0.1:${port}`, spoolDir };
}

/** A key that may infer and see its usage, on a policy with a limit that nobody reaches; returns its secret. */
export async function issueKeys(service: Service, names: readonly string[]): Promise<string[]> {
  const policy = await manage(service.controlPlane, 'POST', '/api/v1/policies', {
    name: 'bench',
    limit_micro_usd: 1_000_000_000_000,
    window: 'month',
    counter_scope: 'principal',
  });
  const keys: string[] = [];
  for (const name of names) {
    const body = { name, principal_id: name, policy_id: policy.id, scopes: ['inference', 'usage:read'] };
    const { key } = await manage(service.controlPlane, 'POST', '/api/v1/keys', body);
    keys.push(String(key));
  }
  return keys;
}
