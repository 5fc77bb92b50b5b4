import { readFile, writeFile } from 'node:fs/promises';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { newDataDir, removeDataDir, startUp } from '../../startUp.ts';
import { catalogPrice } from '../prices.ts';
import { cpuSeconds, operate, type Product } from '../product.ts';
import { bytesOf, type FieldCase, type ValueName, WAYS, type Way } from './fieldCases.ts';

/** The heap that Node takes by itself in the chart's container of 1 GiB. */
const HEAP_MIB = 512;
export const MEMORY_BUDGET_BYTES = 96 * 2 ** 20;
const PROVIDERS = { openai: 'openai', anthropic: 'anthropic', gemini: 'openai', local: 'openai' } as const;

/** What any vendor could say, in each dialect: no text, and what it used. */
const ANSWER = JSON.stringify({
  ...{ choices: [], content: [], output: [], candidates: [] },
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2, input_tokens: 1, output_tokens: 1 },
  usageMetadata: { promptTokenCount: 1, candidatesTokenCount: 1, totalTokenCount: 2 },
});

export interface Measured {
  readonly status: number;
  readonly code: string;
  readonly cpuMs: number;
  /** What of it went by, at most, while someone waited for `/healthz`. */
  readonly heldMs: number;
  /** Of the resident memory, at most. */
  readonly growthBytes: number;
  readonly bodyBytes: number;
}

export interface FieldsProduct {
  send(one: FieldCase): Promise<Measured>;
  close(): Promise<void>;
}

/** The product in embedded mode at the chart's heap, before a vendor that reads bodies and keeps nothing. */
export async function startFieldsProduct(nodeOptions = ''): Promise<FieldsProduct> {
  const vendor = createServer((incoming, response) => {
    incoming.resume().on('end', () => {
      response.setHeader('content-type', 'application/json');
      response.end(ANSWER);
    });
  });
  await new Promise<void>((resolve) => vendor.listen(0, '127.0.0.1', resolve));
  const vendorUrl = `http://127.0.0.1:${(vendor.address() as AddressInfo).port}`;
  const dataDir = await newDataDir('weighbridge-fields-');
  const { process, service } = await startUp(dataDir, {
    ALLOWED_UPSTREAM_HOSTS: '127.0.0.1',
    MEMORY_BUDGET_BYTES: String(MEMORY_BUDGET_BYTES),
    UPSTREAM_MAX_RETRIES: '0',
    NODE_OPTIONS: `--max-old-space-size=${HEAP_MIB} ${nodeOptions}`,
  });
  const close = async () => {
    await process.stop('SIGKILL');
    await removeDataDir(dataDir);
    vendor.closeAllConnections();
    vendor.close();
  };
  try {
    const product = service as unknown as Product;
    await connect(product, vendorUrl);
    const keys = await keysOf(product);
    return { send: (one) => measure(process.pid, service.inferenceUrl, keys[one.way], one), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function connect(product: Product, vendorUrl: string): Promise<void> {
  for (const [provider, dialect] of Object.entries(PROVIDERS)) {
    await operate(product, 'POST', '/api/v1/connectors', {
      name: provider,
      provider,
      dialect,
      base_url: `${vendorUrl}${provider === 'gemini' ? '/v1beta/openai' : '/v1'}`,
      credential: `sk-${provider}`,
    });
    const path = `/api/v1/catalog/models/${encodeURIComponent(`${provider}/plain`)}`;
    await operate(product, 'PUT', path, {
      context_window: 400_000,
      max_output_tokens: 128_000,
      price: catalogPrice('plain'),
    });
  }
}

const POLICIES: Readonly<Record<Way, object>> = {
  plain: {},
  hard: { limit_micro_usd: 1_000_000_000_000, budget_mode: 'hard' },
  restricted: { allowed_models: ['*/plain'] },
  translated: {},
};

async function keysOf(product: Product): Promise<Record<Way, string>> {
  const keys = await Promise.all(
    WAYS.map(async (way) => {
      const policy = { name: way, window: 'month', counter_scope: 'key', ...POLICIES[way] };
      const { id } = await operate(product, 'POST', '/api/v1/policies', policy);
      const key = { name: way, principal_id: way, policy_id: id, scopes: ['inference'] };
      const { key: secret } = await operate(product, 'POST', '/api/v1/keys', key);
      return [way, String(secret)] as const;
    }),
  );
  return Object.fromEntries(keys) as Record<Way, string>;
}

async function measure(pid: number, url: string, key: string, one: FieldCase): Promise<Measured> {
  const body = [Buffer.from(one.prefix), bytesOf(one.value as ValueName), Buffer.from(one.suffix)];
  const bodyBytes = body.reduce((sum, { length }) => sum + length, 0);
  // Forgets the most that was resident before.
  await writeFile(`/proc/${pid}/clear_refs`, '5');
  const before = await statusOf(pid, 'VmRSS');
  const began = await cpuSeconds(pid);
  const posted = post(`${url}${one.url}`, key, body, bodyBytes);
  const heldMs = await longestWait(pid, url, posted);
  const { status, text } = await posted;
  const cpuMs = ((await idle(pid)) - began) * 1_000;
  return {
    status,
    code: codeIn(text),
    cpuMs,
    heldMs,
    growthBytes: (await statusOf(pid, 'VmHWM')) - before,
    bodyBytes,
  };
}

const PING_MS = 20;

/** Asks for `/healthz` all the while: the processor time of the longest wait, which a busy machine does not lengthen. */
async function longestWait(pid: number, url: string, work: Promise<unknown>): Promise<number> {
  let isOver = false;
  const over = work.then(
    () => {
      isOver = true;
    },
    () => {
      isOver = true;
    },
  );
  let longest = 0;
  while (!isOver) {
    const began = await cpuSeconds(pid);
    const response = await fetch(`${url}/healthz`);
    await response.arrayBuffer();
    longest = Math.max(longest, (await cpuSeconds(pid)) - began);
    await Promise.race([over, new Promise((resolve) => setTimeout(resolve, PING_MS))]);
  }
  return longest * 1_000;
}

/** In bytes. */
async function statusOf(pid: number, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  return Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1024;
}

const LOOKS = 40;
const LOOK_MS = 30;

/** The processor time once the process rests: it counts and settles after it has answered. */
async function idle(pid: number): Promise<number> {
  let last = await cpuSeconds(pid);
  for (let look = 0; look < LOOKS; look++) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
    const now = await cpuSeconds(pid);
    if (now - last < 0.015) return now;
    last = now;
  }
  return last;
}

function post(
  url: string,
  key: string,
  body: readonly Buffer[],
  length: number,
): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const headers = {
      authorization: `Bearer ${key}`,
      'content-type': 'application/json',
      'content-length': length,
      'cache-control': 'no-store',
    };
    const sent = request(url, { method: 'POST', headers, agent: false }, (response) => {
      let text = '';
      response.on('data', (chunk) => {
        if (text.length < 10_000) text += String(chunk);
      });
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }));
      response.on('error', reject);
    });
    sent.on('error', reject);
    for (const piece of body) sent.write(piece);
    sent.end();
  });
}

function codeIn(text: string): string {
  return /"code":\s*"(\w+)"/.exec(text)?.[1] ?? /"type":\s*"(?!error")(\w+)"/.exec(text)?.[1] ?? '';
}
