import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createDb, type Database } from '@weighbridge/database';
import { type MockVendor, startMockVendor } from '@weighbridge/mock-vendor';
import { createEmptyDatabase, createTestDatabase, eventually, freePort, testRun } from '@weighbridge/testing';
import { readUsageBatch } from '@weighbridge/usage';
import { sql } from 'kysely';
import { manage, type Service } from '../mainJob.ts';
import { testedCheckout } from '../processes.ts';
import { type Balancer, startBalancer } from './balancer.ts';
import { type FaultyApp, faultyApp } from './faultyApp.ts';
import { type FaultyNats, startFaultyNats } from './faultyNats.ts';
import { type FaultyPostgres, startFaultyPostgres } from './faultyPostgres.ts';

const KEPT_REQUESTS = 1_000_000;
/** Longer than a heartbeat of a proxy takes until its control plane has stored it. */
const QUIET_MS = 1_500;

/** A sender of requests with its own principal, so that its rows can be told from those of others. */
export interface Caller {
  readonly name: string;
  readonly keyId: string;
  readonly key: string;
}

/** All of Weighbridge as real processes, with a vendor that keeps a bill. Each part can be broken. */
export interface Cluster extends Service {
  readonly vendor: MockVendor;
  readonly db: Database;
  readonly databaseUrl: string;
  readonly nats: FaultyNats;
  /** Undefined unless requested: the tests' shared server is never restarted. */
  readonly postgres: FaultyPostgres | undefined;
  readonly controlPlane: FaultyApp;
  /** All control planes, including the one above. */
  readonly controlPlanes: readonly FaultyApp[];
  /** The balancers in front of the apps; none unless requested. */
  readonly balancers: readonly Balancer[];
  /** The address that the proxies connect to: `host:port`. */
  readonly controlPlaneAddress: string;
  readonly proxies: readonly FaultyApp[];
  readonly workers: readonly FaultyApp[];
  addWorker(): Promise<void>;
  /** The spool folder of a proxy of this cluster. */
  spoolDir(proxy: FaultyApp): string;
  caller(name: string, key?: Record<string, unknown>): Promise<Caller>;
  /** Waits until nothing is in flight: the ledger has everything that the running proxies settled. */
  settled(timeoutMs?: number): Promise<void>;
  /** Repairs everything that a test broke. */
  restore(): Promise<void>;
  close(): Promise<void>;
}

export interface ClusterOptions {
  readonly proxies?: number;
  readonly workers?: number;
  readonly controlPlanes?: number;
  /** Callers, operators and proxies reach the apps through balancers, as in Kubernetes. */
  readonly balanced?: boolean;
  /** A separate Postgres, which may be broken. */
  readonly ownPostgres?: boolean;
  /** That Postgres can be restored to a point in time. */
  readonly archivesPostgres?: boolean;
  /** Spools with one parent folder, so that a proxy finds the orphaned spool of another. */
  readonly sharedSpools?: boolean;
  /** The folder of an earlier release: its apps start on an empty database, and on a NATS without users, which it knows none of. */
  readonly release?: string;
  /** How far the clock of the app with this name is ahead. */
  readonly clockOffsetMs?: (name: string) => number;
  readonly env?: {
    readonly controlPlane?: Record<string, string>;
    readonly dataPlane?: Record<string, string>;
    readonly metering?: Record<string, string>;
  };
}

export async function startCluster(options: ClusterOptions = {}): Promise<Cluster> {
  const folder = await mkdtemp(join(testRun().folder, 'faults-'));
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })];
  const close = async () => {
    for (const closeOne of closing.splice(0).reverse()) await closeOne();
  };
  try {
    return { ...(await startAll(folder, options, (closeOne) => closing.push(closeOne))), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function startAll(
  folder: string,
  options: ClusterOptions,
  onClose: (closeOne: () => Promise<unknown>) => void,
): Promise<Omit<Cluster, 'close'>> {
  const { ownPostgres, archivesPostgres: archives = false } = options;
  const postgres = ownPostgres ? await startFaultyPostgres({ archives }) : undefined;
  if (postgres) onClose(() => postgres.close());
  const database =
    postgres ?? (await (options.release === undefined ? createTestDatabase() : createEmptyDatabase()));
  if ('drop' in database) onClose(() => database.drop());
  const nats = await startFaultyNats(folder, {
    hasUsers: (options.release ?? testedCheckout) === undefined,
  });
  onClose(() => nats.close());
  const vendor = await startMockVendor({ keep: KEPT_REQUESTS });
  onClose(() => vendor.close());
  const db = createDb(database.url, { applicationName: 'faults', onIdleError: () => {} });
  onClose(() => db.destroy());

  const DATABASE_URL = database.url;
  const OPERATOR_KEY_FILE = join(folder, 'operator-key');
  const add = async (
    app: 'control-plane' | 'data-plane' | 'metering',
    name: string,
    env: Record<string, string>,
  ) => {
    const offsetMs = options.clockOffsetMs?.(name) ?? 0;
    const settings = { ...env, FAULTS_CLOCK_OFFSET_MS: String(offsetMs) };
    const [port, metricsPort] = [await freePort(), await freePort()];
    const { release } = options;
    const added = faultyApp({ app, name, folder, port, metricsPort, env: settings, release });
    await added.start();
    onClose(() => added.stop('SIGKILL'));
    return added;
  };
  const spoolDir = (name: string) => join(folder, options.sharedSpools ? 'spools' : `${name}-spools`, name);
  const count = (many = 1) => Array.from({ length: many }, (_, index) => index + 1);
  const balancers: Balancer[] = [];
  const balance = async (apps: readonly FaultyApp[], port: (app: FaultyApp) => number) => {
    const backends = apps.map((app) => ({
      name: app.name,
      port: port(app),
      readyUrl: `${app.url}/readyz`,
    }));
    const balancer = await startBalancer(backends);
    onClose(() => balancer.close());
    balancers.push(balancer);
    await eventually(() => {
      const out = backends.filter(({ name }) => !balancer.serves(name));
      if (out.length > 0) throw new Error(`not ready: ${out.map(({ name }) => name).join(', ')}`);
    });
    return balancer;
  };
  const httpPort = ({ url }: FaultyApp) => Number(new URL(url).port);
  const grpcPorts = new Map<string, number>();
  const controlPlanes: FaultyApp[] = [];
  for (const at of count(options.controlPlanes)) {
    const name = at === 1 ? 'control-plane' : `control-plane-${at}`;
    const grpc = await freePort();
    grpcPorts.set(name, grpc);
    const settings = {
      DATABASE_URL,
      OPERATOR_KEY_FILE,
      MOCK_VENDOR_URL: vendor.url,
      GRPC_PORT: String(grpc),
    };
    controlPlanes.push(await add('control-plane', name, { ...settings, ...options.env?.controlPlane }));
  }
  const [controlPlane] = controlPlanes;
  if (!controlPlane) throw new Error('a cluster has a control plane');
  const grpcPort = ({ name }: FaultyApp) => grpcPorts.get(name) ?? 0;
  const management = options.balanced ? await balance(controlPlanes, httpPort) : undefined;
  const controlPlaneAddress = options.balanced
    ? (await balance(controlPlanes, grpcPort)).address
    : `127.0.0.1:${grpcPort(controlPlane)}`;
  const workers: FaultyApp[] = [];
  const addWorker = async () => {
    const env = { DATABASE_URL, NATS_URL: nats.urls.metering, ...options.env?.metering };
    workers.push(await add('metering', `worker-${workers.length + 1}`, env));
  };
  for (const _ of count(options.workers)) await addWorker();
  const proxies = await Promise.all(
    count(options.proxies).map((at) =>
      add('data-plane', `proxy-${at}`, {
        NATS_URL: nats.urls['data-plane'],
        CONTROL_PLANE_ADDRESS: controlPlaneAddress,
        PROXY_NAME: `proxy-${at}`,
        SPOOL_DIR: spoolDir(`proxy-${at}`),
        STATE_FILE: join(folder, `proxy-${at}.state`),
        DRAIN_TIMEOUT_MS: '500',
        UPSTREAM_CHUNK_TIMEOUT_MS: '5000',
        ...options.env?.dataPlane,
      }),
    ),
  );
  const inference = options.balanced ? await balance(proxies, httpPort) : undefined;
  const service = {
    managementUrl: management?.url ?? controlPlane.url,
    inferenceUrl: inference?.url ?? proxies[0]?.url ?? '',
    operatorKey: (await readFile(OPERATOR_KEY_FILE, 'utf8')).trim(),
  };
  return {
    ...service,
    vendor,
    db,
    databaseUrl: database.url,
    nats,
    postgres,
    controlPlane,
    controlPlanes,
    balancers,
    controlPlaneAddress,
    proxies,
    workers,
    addWorker,
    async restore() {
      if (!nats.isRunning) await nats.start();
      for (const app of [...controlPlanes, ...workers, ...proxies]) await app.restore();
      // Connections to a restarted Postgres are replaced when they are used.
      await eventually(async () => {
        const { status } = await manage(service, 'GET', '/api/v1/keys');
        if (status !== 200) throw new Error(`the control plane answers ${status}`);
      });
    },
    spoolDir: ({ name }) => spoolDir(name),
    async caller(name, key = {}) {
      const body = { name, principal_id: name, scopes: ['inference', 'usage:read'], ...key };
      const created = await manage(service, 'POST', '/api/v1/keys', { body });
      if (created.status !== 201) throw new Error(`no key for ${name}: ${JSON.stringify(created.body)}`);
      return { name, keyId: String(created.body.id), key: String(created.body.key) };
    },
    async settled(timeoutMs = 60_000) {
      let quietSince: number | undefined;
      await eventually(
        async () => {
          // Not the stream's messages: after a crash, NATS 2.9 retains some that were acknowledged, and never delivers them.
          const {
            waiting: undelivered,
            unacknowledged,
            where,
          } = await nats.deliveries((payload) => hasRecorded(db, payload));
          const waiting = [
            ...(await waitingProxies(service, proxies)),
            ...(undelivered + unacknowledged > 0
              ? [`the stream (not delivered and not acknowledged: ${where})`]
              : []),
          ];
          if (waiting.length > 0) quietSince = undefined;
          else quietSince ??= performance.now();
          if (quietSince === undefined) throw new Error(`not settled: ${waiting.join(', ')}`);
          // The state that a proxy reports is up to a second old.
          if (performance.now() - quietSince < QUIET_MS) throw new Error('settled, but not for long');
        },
        { timeoutMs, intervalMs: 250 },
      );
    },
  };
}

/** Whether the ledger has all numbers of a batch of usage. */
async function hasRecorded(db: Database, payload: Uint8Array): Promise<boolean> {
  const batch = readUsageBatch(payload);
  if (!batch) return false;
  const { rows } = await sql<{ has: boolean }>`
    SELECT received @> int8range(${batch.firstN}, ${batch.firstN + BigInt(batch.events.length)}) AS has
    FROM producer_shards
    WHERE producer_id = ${batch.producerId} AND epoch = ${batch.epoch} AND shard = ${batch.shard}`.execute(
    db,
  );
  return rows[0]?.has === true;
}

/** Descriptions of the running proxies that still hold something. */
async function waitingProxies(service: Service, proxies: readonly FaultyApp[]): Promise<string[]> {
  const { body } = await manage(service, 'GET', '/api/v1/proxies?page_size=500');
  const listed = body.data as {
    name: string;
    connected_at: string;
    waiting_usage_bytes: number;
    in_flight_requests: number;
  }[];
  return proxies
    .filter((proxy) => proxy.isUp)
    .flatMap(({ name }) => {
      // The name of one of several processes ends with a number.
      const runs = listed.filter((one) => one.name === name || one.name.startsWith(`${name}-`));
      if (runs.length === 0) return [`${name} is not listed`];
      const newest = new Map(
        runs.sort((a, b) => a.connected_at.localeCompare(b.connected_at)).map((run) => [run.name, run]),
      );
      return [...newest.values()]
        .filter((run) => run.waiting_usage_bytes > 0 || run.in_flight_requests > 0)
        .map(
          (run) => `${run.name} has ${run.in_flight_requests} requests and ${run.waiting_usage_bytes} bytes`,
        );
    });
}
