import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type MockVendor, startMockVendor, type VendorTraits } from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { newDataDir, removeDataDir, startUp } from '../startUp.ts';
import { type DeadEnd, startDeadEnd, startTap, type Tap } from './tap.ts';
import { vendorPrices } from './vendorPrices.ts';

type Json = Record<string, unknown>;

interface Vendor {
  readonly dialect: string;
  readonly traits: Partial<VendorTraits>;
  /** The provider whose models and prices it has, too. */
  readonly modelsOf?: string;
}

/** The providers that the clients are for. Each simulator refuses what its vendor refuses. */
const VENDORS = {
  openai: { dialect: 'openai', traits: { strict: true } },
  anthropic: { dialect: 'anthropic', traits: { strict: true } },
  gemini: { dialect: 'openai', traits: { strict: true } },
  /** The catalog has no models of these. */
  azure: { dialect: 'openai', traits: { strict: true }, modelsOf: 'openai' },
  acme: { dialect: 'anthropic', traits: { strict: true }, modelsOf: 'anthropic' },
  groq: { dialect: 'openai', traits: { strict: true, streamUsage: 'x_groq' } },
  mistral: {
    dialect: 'openai',
    traits: { strict: true, streamUsage: 'last_chunk', refusesStreamOptions: true },
  },
} as const satisfies Record<string, Vendor>;
export type VendorName = keyof typeof VENDORS;

const CLI = join(import.meta.dirname, '..', '..', 'dist', 'main.js');

/** What `weighbridge connect <client> --json` printed. */
export interface Connected {
  readonly key_id: string;
  readonly env: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
  readonly code?: string;
  readonly next: string;
}

/** The attempt of a request in the ledger that was answered, with what the request was for. */
interface LedgerRow extends Json {
  /** The model that answered. */
  readonly model: string;
  readonly outcome: string;
  readonly sessionId: string | undefined;
  readonly labels: Readonly<Record<string, string>>;
  /** What the vendor did not get. */
  readonly dropped: readonly string[];
}

/** An embedded service, simulated vendors that each keep a bill, and a tap on what clients send. */
export interface ClientScene {
  readonly tap: Tap;
  readonly deadEnd: DeadEnd;
  vendor(name: VendorName): MockVendor;
  /** Makes every vendor follow a script from now on, and forgets all requests and bills so far. */
  begin(script?: Readonly<Record<string, string>>): void;
  connect(client: string, ...options: string[]): Promise<Connected>;
  manage(method: string, path: string, body?: unknown): Promise<Json>;
  /** The rows of a key, once the ledger has this many. */
  rows(keyId: string, count: number): Promise<readonly LedgerRow[]>;
  /** The ledger has what the vendors billed since `begin`: requests, tokens and cost. Returns the rows. */
  expectBilled(keyId: string): Promise<readonly LedgerRow[]>;
  close(): Promise<void>;
}

/** `checksHistory`: the simulators refuse conversations that they can't have had. */
export async function openClientScene(
  settings: Record<string, string> = {},
  { checksHistory = false } = {},
): Promise<ClientScene> {
  const dataDir = await newDataDir('weighbridge-client-');
  const { process: running, service } = await startUp(dataDir, {
    ALLOWED_UPSTREAM_HOSTS: '127.0.0.1',
    UPSTREAM_MAX_RETRIES: '0',
    ...settings,
  });
  const operate = async (method: string, path: string, body?: unknown) => {
    const answer = await manage(service, method, path, body === undefined ? {} : { body });
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${JSON.stringify(answer)}`);
    return answer.body;
  };
  const catalog = await wholeCatalog(operate);
  const vendors = new Map<VendorName, MockVendor>();
  for (const [name, { dialect, traits, modelsOf }] of Object.entries<Vendor>(VENDORS)) {
    const prices = vendorPrices(catalog, modelsOf ?? name);
    const vendor = await startMockVendor({ traits: { ...traits, checksHistory, prices } });
    vendors.set(name as VendorName, vendor);
    // Gemini's own API is beside the one that is compatible with OpenAI's.
    const baseUrl = name === 'gemini' ? vendor.url.replace(/\/v1$/, '/v1beta/openai') : vendor.url;
    const connector = { name, provider: name, dialect, base_url: baseUrl, credential: `sk-${name}` };
    await operate('POST', '/api/v1/connectors', connector);
    if (modelsOf !== undefined) await addModels(operate, catalog, modelsOf, name);
  }
  const tap = await startTap(service.inferenceUrl);
  const deadEnd = await startDeadEnd();
  const rows = (keyId: string, count: number) => ledgerRows(operate, keyId, count);
  return {
    tap,
    deadEnd,
    vendor: (name) => vendors.get(name) as MockVendor,
    begin(script = {}) {
      tap.clear();
      deadEnd.clear();
      for (const vendor of vendors.values()) {
        vendor.script(script);
        vendor.clear();
      }
    },
    connect: (client, ...options) => runConnect(tap.url, service.operatorKey, client, options),
    manage: operate,
    rows,
    expectBilled: (keyId) => expectBilled([...vendors.values()], (count) => rows(keyId, count)),
    async close() {
      await running.stop();
      await Promise.all([...vendors.values(), tap, deadEnd].map((one) => one.close()));
      await removeDataDir(dataDir);
    },
  };
}

type Operate = (method: string, path: string, body?: unknown) => Promise<Json>;

async function wholeCatalog(operate: Operate): Promise<Json[]> {
  const models: Json[] = [];
  for (let token: unknown = ''; ; ) {
    const page = await operate('GET', `/api/v1/catalog/models?page_size=500&page_token=${token}`);
    models.push(...(page.data as Json[]));
    token = page.next_page_token;
    if (!token) return models;
  }
}

/** Those that a test names. */
const ADDED = /^(gpt-6\.1-sol|claude-opus-5-5)$/;

async function addModels(
  operate: Operate,
  catalog: readonly Json[],
  from: string,
  to: string,
): Promise<void> {
  for (const model of catalog) {
    const { provider, upstream_name: name, context_window, max_output_tokens, capabilities, price } = model;
    if (provider !== from || !ADDED.test(String(name))) continue;
    const path = `/api/v1/catalog/models/${encodeURIComponent(`${to}/${name}`)}`;
    const { price: rates } = price as Json;
    await operate('PUT', path, { context_window, max_output_tokens, capabilities, price: rates });
  }
}

async function ledgerRows(operate: Operate, keyId: string, count: number): Promise<readonly LedgerRow[]> {
  return await eventually(
    async () => {
      const { data } = await operate('GET', `/api/v1/requests?key_id=${keyId}&page_size=500`);
      const found = (data as Json[]).filter(({ outcome }) => outcome !== 'refused');
      if (found.length < count) throw new Error(`the ledger has ${found.length} of ${count} requests`);
      return found.map(rowOf);
    },
    { intervalMs: 50 },
  );
}

function rowOf({ attempts, attribution }: Json): LedgerRow {
  const failed = (attempts as Json[]).slice();
  const attempt = failed.pop();
  expect(failed.map(({ cost_micro_usd: cost, outcome }) => [cost, outcome === 'success'])).toEqual(
    failed.map(() => [0, false]),
  );
  const { session_id: sessionId, labels = {} } = attribution as { session_id?: string; labels?: object };
  return { ...attempt, sessionId, labels } as LedgerRow;
}

async function runConnect(url: string, operatorKey: string, client: string, options: readonly string[]) {
  const env = { PATH: '/usr/bin:/bin', WEIGHBRIDGE_URL: url, WEIGHBRIDGE_KEY: operatorKey };
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [CLI, 'connect', client, '--json', ...options],
    { env, timeout: 20_000 },
  );
  return JSON.parse(stdout) as Connected;
}

async function expectBilled(
  vendors: readonly MockVendor[],
  rowsOf: (count: number) => Promise<readonly LedgerRow[]>,
): Promise<readonly LedgerRow[]> {
  const entries = vendors.flatMap((vendor) =>
    vendor.bill.map((entry) => ({ ...entry, cost: vendor.costOf(entry) })),
  );
  const rows = await rowsOf(entries.length);
  const billed = entries.filter(({ inputTokens }) => inputTokens > 0);
  const sum = (field: string) => rows.reduce((total, row) => total + Number(row[field] ?? 0), 0);
  const cost = entries.reduce((total, entry) => total + Number(entry.cost), 0) / 1_000;
  expect(billed.length).toBeGreaterThan(0);
  const input = sum('input_tokens') + sum('cache_read_tokens') + sum('cache_write_tokens');
  expect({ input, output: sum('output_tokens') }).toEqual({
    input: billed.reduce((total, entry) => total + entry.inputTokens, 0),
    output: billed.reduce((total, entry) => total + entry.outputTokens, 0),
  });
  // Each request is rounded to a micro-USD.
  expect(Math.abs(sum('cost_micro_usd') - cost)).toBeLessThanOrEqual(rows.length);
  return rows;
}

export interface Ran {
  readonly code: number;
  readonly output: string;
  /** The file that was asked for; empty without one. */
  readonly kept: string;
}

/**
 * Runs a program as `env -i` would, in an empty home with the files of `connect` and these, by default at most for two minutes:
 * some take a long time to begin when the machine is busy. What is not on this machine can be reached by the dead end only. Of its
 * home, one file may be kept.
 */
export async function runClient(
  scene: ClientScene,
  command: string,
  args: readonly string[],
  connected: Pick<Connected, 'env' | 'files'>,
  {
    files = {},
    modules,
    keep,
    timeoutMs = 120_000,
  }: { files?: Readonly<Record<string, string>>; modules?: string; keep?: string; timeoutMs?: number } = {},
): Promise<Ran> {
  const home = await mkdtemp(join(tmpdir(), 'client-home-'));
  try {
    for (const [path, text] of Object.entries({ ...connected.files, ...files })) {
      await mkdir(join(home, path, '..'), { recursive: true });
      await writeFile(join(home, path), text);
    }
    const work = join(home, 'work');
    await mkdir(work, { recursive: true });
    if (modules !== undefined) await symlink(join(modules, 'node_modules'), join(home, 'node_modules'));
    const proxy = { HTTP_PROXY: scene.deadEnd.url, HTTPS_PROXY: scene.deadEnd.url, NO_PROXY: '127.0.0.1' };
    const proxies = Object.entries(proxy).flatMap(([name, value]) => [
      [name, value],
      [name.toLowerCase(), value],
    ]);
    const env = { HOME: home, PATH: '/usr/bin:/bin', ...Object.fromEntries(proxies), ...connected.env };
    const ran = await new Promise<Omit<Ran, 'kept'>>((resolve) => {
      const options = { cwd: work, env, timeout: timeoutMs, maxBuffer: 2 ** 24 };
      const child = execFile(command, [...args], options, (error, out, err) =>
        resolve({
          code: error ? Number(error.code ?? 1) : 0,
          output: `${out}\n${err}`,
        }),
      );
      child.stdin?.end();
    });
    return {
      ...ran,
      kept: keep === undefined ? '' : await readFile(join(home, keep), 'utf8').catch(() => ''),
    };
  } finally {
    await rm(home, { recursive: true, force: true });
  }
}
