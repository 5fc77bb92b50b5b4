import { create } from '@bufbuild/protobuf';
import { openArchive } from '@weighbridge/archive';
import { type Key, KeySchema, type Snapshot } from '@weighbridge/contracts';
import type { Database } from '@weighbridge/database';
import { mintToken, tokenSha256 } from '@weighbridge/domain';
import { createLogger, createMetrics, type Logger, type Metrics } from '@weighbridge/runtime';
import { wholeTables } from '@weighbridge/state';
import { createTestDatabase } from '@weighbridge/testing';
import { loadConfig } from '../src/config.ts';
import { createOidc } from '../src/features/access/oidc/oidc.ts';
import { bootstrap } from '../src/features/bootstrap/bootstrap.service.ts';
import { readCatalogFiles } from '../src/features/catalog/catalogFile.ts';
import { currentPosition } from '../src/features/changes/changes.service.ts';
import { applyEnvironmentConnectors } from '../src/features/connectors/environmentConnectors.service.ts';
import { environmentConnectors } from '../src/features/connectors/environmentConnectors.ts';
import { SignInLinks } from '../src/features/console/signInLinks.ts';
import { watchArchive } from '../src/features/health/archiveHealth.service.ts';
import { KeyUses } from '../src/features/keys/keyUses.service.ts';
import { loadPeppers } from '../src/features/keys/peppers.ts';
import { ChangeFeed } from '../src/features/proxies/changeFeed.ts';
import { ProxyOverheads } from '../src/features/proxies/proxyOverheads.ts';
import { resolveKey } from '../src/features/proxies/resolveKey.service.ts';
import { readChanges, readTables } from '../src/features/proxies/tables.service.ts';
import { buildApp } from '../src/http/app.ts';
import { encodeModelInPath } from '../src/http/modelPaths.ts';
import type { OpenApiDocument } from '../src/openapi/types.ts';
import { publishedResponses } from './publishedResponses.ts';

export type Json = Record<string, unknown>;
type TestApp = ReturnType<typeof buildApp>;

/** The operator API on its own database, called without a network. */
export interface TestApi {
  readonly db: Database;
  readonly databaseUrl: string;
  readonly operatorKey: string;
  /** The current snapshot that proxies get. */
  snapshot(): Promise<Snapshot>;
  /** What follows the changes, as a control plane does for its proxies. */
  changeFeed(): ChangeFeed;
  /** When keys were used, as it is about to be recorded. */
  readonly keyUses: KeyUses;
  /** What proxies report of their overhead. */
  readonly proxyOverheads: ProxyOverheads;
  /** A key as a proxy resolves it by its token. */
  resolve(token: string): Promise<Key>;
  readonly metrics: Metrics;
  /** Links that sign in without a key. */
  readonly signInLinks: SignInLinks;
  /** The log of the service so far. */
  readonly log: () => string;
  /** The current time of the service. */
  now: Date;
  /** The document at `/api/v1/openapi.json`. */
  readonly document: OpenApiDocument;
  /** Calls an operation. Throws if the response does not match the published document. */
  call(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE' | 'PUT',
    path: string,
    options?: {
      readonly key?: string | null;
      readonly body?: unknown;
      readonly headers?: Record<string, string>;
    },
  ): Promise<{ status: number; body: Json; headers: Record<string, unknown> }>;
  /** Requests any path of the service; by default with GET and without a key. */
  get(
    path: string,
    options?: {
      readonly key?: string;
      readonly headers?: Record<string, string>;
      readonly method?: 'POST' | 'PATCH' | 'PUT' | 'DELETE';
      readonly payload?: string;
    },
  ): Promise<{
    status: number;
    type: string;
    text: string;
    bytes: Uint8Array<ArrayBuffer>;
    headers: Record<string, unknown>;
  }>;
  /** Issues a key as the operator; returns the response body. */
  issue(fields?: Json, key?: string): Promise<{ id: string; key: string; policy_id: string } & Json>;
  close(): Promise<void>;
}

/** The archive of a test, if its settings have one, watched as by the service. */
async function openTestArchive(
  deps: Parameters<typeof bootstrap>[0] & { readonly logger: Logger },
  { archive: config }: ReturnType<typeof loadConfig>,
  metrics: Metrics,
) {
  if (!config) return { archive: undefined, degraded: () => undefined, close: async () => {} };
  const archive = await openArchive({
    ...config,
    threads: 1,
    timeoutMs: 120_000,
    maxReadBytes: config.bucket.cacheBytes,
    retryAfterMs: [],
  });
  const steps: (() => unknown)[] = [() => archive.close()];
  const onShutdown = (_name: string, step: () => unknown) => void steps.unshift(step);
  const degraded = watchArchive({ ...deps, archive, metrics, everyMs: 100 }, { onShutdown });
  return {
    archive,
    degraded,
    close: async () => {
      for (const step of steps) await step();
    },
  };
}

/** The application of a test, with the document that it publishes. */
async function startApp(
  deps: Parameters<typeof bootstrap>[0] & Pick<TestApi, 'keyUses' | 'signInLinks' | 'proxyOverheads'>,
  settings: ReturnType<typeof loadConfig>,
  env: Record<string, string>,
  operatorKey: string,
) {
  const { credentials, oidc, upstreamHosts, webhookHosts, publicUrl, maxKeysPerPrincipal, feedSource } =
    settings;
  await bootstrap(deps, await readCatalogFiles(), { token: operatorKey, file: undefined });
  const connectors = environmentConnectors(env, 'http://127.0.0.1:1/v1');
  await applyEnvironmentConnectors(deps.db, connectors, deps.now());
  const metrics = createMetrics();
  const { archive, degraded, close } = await openTestArchive(deps, settings, metrics);
  const app = buildApp({
    ...deps,
    archive,
    credentials,
    upstreamHosts,
    webhookHosts,
    maxKeysPerPrincipal,
    feedSource,
    metrics,
    publicUrl,
    ...createOidc(oidc, { ...deps, publicUrl }),
    notReady: () => undefined,
    degraded,
  });
  app.addHook('onClose', close);
  await app.ready();
  return { app, metrics, document: app.swagger() as unknown as OpenApiDocument };
}

/** Calls operations with the operator key by default, and checks the responses against the document. */
function createCall(app: TestApp, document: OpenApiDocument, operatorKey: string): TestApi['call'] {
  const responses = publishedResponses(document);
  return async (method, path, { key = operatorKey, body: sent, headers } = {}) => {
    const response = await app.inject({
      method,
      url: `/api/v1${path}`,
      headers: { ...(key !== null && { authorization: `Bearer ${key}` }), ...headers },
      ...(sent !== undefined && { payload: sent as object }),
    });
    responses.check({
      method,
      path: encodeModelInPath(`/api/v1${path}`),
      status: response.statusCode,
      type: String(response.headers['content-type'] ?? ''),
      text: response.body,
    });
    // One operation has no JSON.
    const isCsv = String(response.headers['content-type']).startsWith('text/csv');
    const body = isCsv ? {} : (response.json() as Json);
    return { status: response.statusCode, body, headers: response.headers };
  };
}

export async function startTestApi(env: Record<string, string> = {}): Promise<TestApi> {
  const database = await createTestDatabase();
  const { db } = database;
  let log = '';
  const logger = createLogger('test', {
    write: (line) => {
      log += line;
    },
  });
  logger.level = 'debug';
  const operatorKey = mintToken();
  const api = { now: new Date('2026-11-20T10:00:00Z') };
  const now = () => api.now;
  const peppers = await loadPeppers(db, { current: undefined, others: [] }, now());
  const settings = loadConfig({
    DATABASE_URL: database.url,
    CONTROL_PLANE_TOKEN: 'a token that the apps share',
    ...env,
  });
  const { credentials, upstreamHosts } = settings;
  const keyUses = new KeyUses({ db, logger, nowMs: () => api.now.getTime() });
  const signInLinks = new SignInLinks(() => api.now.getTime());
  const proxyOverheads = new ProxyOverheads(() => api.now.getTime());
  const deps = { db, now, peppers, logger, credentials, upstreamHosts, keyUses, signInLinks, proxyOverheads };
  const { app, metrics, document } = await startApp(deps, settings, env, operatorKey);
  const call = createCall(app, document, operatorKey);
  const rest: Omit<TestApi, 'now'> = {
    db,
    keyUses,
    proxyOverheads,
    databaseUrl: database.url,
    operatorKey,
    document,
    metrics,
    signInLinks,
    log: () => log,
    async snapshot() {
      const { revision, rows } = await readTables(deps);
      return { ...wholeTables(rows), revision };
    },
    changeFeed: () =>
      new ChangeFeed({
        logger,
        readPosition: () => currentPosition(db),
        readChanges: (after, limit) => readChanges(deps, after, limit),
        readPolicies: async () => [],
        readTables: () => readTables(deps),
      }),
    async resolve(token) {
      const { key } = await resolveKey(deps, tokenSha256(token));
      if (!key) throw new Error('no key has this token');
      return create(KeySchema, key);
    },
    call,
    async get(path, { key, headers: sent, method = 'GET', payload } = {}) {
      const { statusCode, headers, body, rawPayload } = await app.inject({
        method,
        url: path,
        ...(payload !== undefined && { payload }),
        headers: { ...(key !== undefined && { authorization: `Bearer ${key}` }), ...sent },
      });
      const bytes = new Uint8Array(rawPayload);
      return { status: statusCode, type: String(headers['content-type']), text: body, bytes, headers };
    },
    async issue(fields: Json = {}, key = operatorKey) {
      const { status, body } = await call('POST', '/keys', { body: { name: 'test', ...fields }, key });
      if (status !== 201) throw new Error(`the key was not issued: ${JSON.stringify(body)}`);
      return body as Awaited<ReturnType<TestApi['issue']>>;
    },
    async close() {
      await app.close();
      await database.drop();
    },
  };
  return Object.assign(api, rest);
}

/** The status of a response, and the code of its error, if it is one. */
export async function outcome(response: ReturnType<TestApi['call']>): Promise<[number, string | undefined]> {
  const { status, body } = await response;
  return [status, (body.error as { code: string } | undefined)?.code];
}
