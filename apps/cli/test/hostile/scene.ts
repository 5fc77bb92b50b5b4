import {
  type BillEntry,
  type MockVendor,
  startMockVendor,
  type VendorTraits,
} from '@weighbridge/mock-vendor';
import { eventually } from '@weighbridge/testing';
import { manage } from '../mainJob.ts';
import { testedCheckout } from '../processes.ts';
import { catalogPrice, VENDOR_PRICES } from './prices.ts';
import { type Mode, operate, type Product, startProduct } from './product.ts';

type Json = Record<string, unknown>;

/** The product with simulated vendors behind it, each of which keeps its own bill by its own prices. */
export interface Scene {
  readonly product: Product;
  readonly vendors: readonly MockVendor[];
  vendor(name: VendorName): MockVendor;
  /** A tenant under its own policy. */
  tenant(policy?: Json, key?: Json): Promise<Tenant>;
  close(): Promise<void>;
}

/** Providers by the name in their models' ids. `local` is any server that speaks OpenAI's dialect. */
const VENDORS = {
  openai: { dialect: 'openai', traits: { strict: true, honours: 'max_completion_tokens' } },
  anthropic: { dialect: 'anthropic', traits: { strict: true } },
  gemini: { dialect: 'openai', traits: { strict: true, honours: 'max_tokens' } },
  local: { dialect: 'openai', traits: { honours: 'max_tokens', readsAnyCase: true } },
} as const satisfies Record<string, { dialect: string; traits: Partial<VendorTraits> }>;
type VendorName = keyof typeof VENDORS;

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  readonly json: Json;
  /** The error's code, or its type where a dialect has no codes. */
  readonly code: string;
}

export interface Asking {
  readonly script?: Record<string, string>;
  readonly headers?: Record<string, string>;
  readonly signal?: AbortSignal;
  readonly method?: string;
}

export interface Tenant {
  readonly keyId: string;
  readonly key: string;
  readonly policyId: string;
  /** In the header `x-mark` of its requests. */
  readonly mark: string;
  /** Sends a request, with the behaviour of the vendor (without the prefix `x-mock-`). */
  ask(path: string, body: unknown, asking?: Asking): Promise<Answer>;
  /** Sends a request, and leaves after this many bytes of the response, or before it if 0. */
  leave(path: string, body: unknown, asking: Asking & { readonly afterBytes?: number }): Promise<void>;
  /** The entries of this tenant on the vendors' bills. */
  entries(): readonly BillEntry[];
  /** What the vendors charge for this tenant, in micro-USD. */
  billed(): number;
  /** The same by the value of a header of its requests. */
  billedBy(header: string): ReadonlyMap<string, number>;
  /** The rows of the ledger, without those of refused requests, once there are this many requests. */
  rows(requests?: number): Promise<readonly Json[]>;
  /** What the ledger charges, in micro-USD, once it has this many requests. */
  charged(requests?: number): Promise<number>;
}

/** `greedy`: each vendor does all that a request allows, and reads fields in any case. */
export async function openScene(mode: Mode, { greedy = false } = {}): Promise<Scene> {
  const product = await startProduct(mode);
  const vendors = new Map<VendorName, MockVendor>();
  const close = async () => {
    await product.close();
    for (const vendor of vendors.values()) await vendor.close();
  };
  try {
    for (const [name, { traits }] of Object.entries(VENDORS)) {
      const ways = greedy ? { greedy, strict: false, readsAnyCase: true } : {};
      const vendor = await startMockVendor({
        keep: 100_000,
        traits: { ...traits, ...ways, prices: VENDOR_PRICES },
      });
      vendors.set(name as VendorName, vendor);
    }
    await Promise.all([...vendors].map(([name, vendor]) => connect(product, name, vendor)));
    const vendor = (name: VendorName) => vendors.get(name) as MockVendor;
    return {
      product,
      vendors: [...vendors.values()],
      vendor,
      tenant: (policy = {}, key = {}) => newTenant(product, [...vendors.values()], policy, key),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** What the tests tell the vendors by headers. Earlier releases forward any header. */
const FORWARDED =
  testedCheckout === undefined ? { forward_headers: ['x-mark', 'x-number', 'x-probe', 'x-mock-*'] } : {};

async function connect(product: Product, provider: VendorName, vendor: MockVendor): Promise<void> {
  const { dialect } = VENDORS[provider];
  await operate(product, 'POST', '/api/v1/connectors', {
    name: provider,
    provider,
    dialect,
    // Google has its compatible API below its own.
    base_url: provider === 'gemini' ? vendor.url.replace(/\/v1$/, '/v1beta/openai') : vendor.url,
    credential: `sk-${provider}`,
    // A case may have another account of the provider.
    priority: 1,
    ...FORWARDED,
  });
  for (const name of Object.keys(VENDOR_PRICES)) {
    await setPrice(product, `${provider}/${name}`, name);
  }
}

async function setPrice(product: Product, model: string, name: string): Promise<void> {
  const path = `/api/v1/catalog/models/${encodeURIComponent(model)}`;
  const price = catalogPrice(name) as Json;
  const context_window = name === 'small' ? 1_000 : 400_000;
  const put = (with_: Json) => ({ context_window, max_output_tokens: 128_000, price: with_ });
  const { status, body } = await manage(product, 'PUT', path, { body: put(price) });
  if (status < 300) return;
  // An earlier release, which has no such dimensions: it gets what it can take.
  if (testedCheckout === undefined) throw new Error(`PUT ${path}: ${status} ${JSON.stringify(body)}`);
  const known = /^(input|output|cache_\w+)_price$|^tiers$/;
  const cut = (one: Json): Json =>
    Object.fromEntries(
      Object.entries(one)
        .filter(
          ([field]) => (known.test(field) || field === 'above_input_tokens') && !/audio|image/.test(field),
        )
        .map(([field, value]) => [field, field === 'tiers' ? (value as Json[]).map(cut) : value]),
    );
  await operate(product, 'PUT', path, put(cut(price)));
}

let tenants = 0;

async function newTenant(
  product: Product,
  vendors: readonly MockVendor[],
  policy: Json,
  key: Json,
): Promise<Tenant> {
  const name = `hostile-${++tenants}`;
  const { id: policyId } = await operate(product, 'POST', '/api/v1/policies', {
    name,
    window: 'month',
    counter_scope: 'key',
    ...policy,
  });
  const created = await operate(product, 'POST', '/api/v1/keys', {
    name,
    principal_id: name,
    policy_id: policyId,
    scopes: ['inference', 'usage:read', 'keys:read', 'keys:write'],
    ...key,
  });
  const [keyId, secret] = [String(created.id), String(created.key)];
  const requestOf = (path: string, body: unknown, asking: Asking): [string, RequestInit] => [
    `${product.inferenceUrl}${path}`,
    {
      method: asking.method ?? (body === undefined ? 'GET' : 'POST'),
      headers: {
        authorization: `Bearer ${secret}`,
        'x-mark': name,
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...Object.fromEntries(
          Object.entries(asking.script ?? {}).map(([field, value]) => [`x-mock-${field}`, value]),
        ),
        ...asking.headers,
      },
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
      ...(asking.signal && { signal: asking.signal }),
    },
  ];
  const entries = () =>
    vendors.flatMap((vendor) => {
      const mine = new Map(
        vendor.requests
          .filter(({ headers }) => headers['x-mark'] === name)
          .map(({ requestId, headers }) => [requestId, headers]),
      );
      return vendor.bill.flatMap((entry) => {
        const headers = mine.get(entry.requestId);
        return headers ? [{ entry, headers, cost: Number(vendor.costOf(entry)) / 1_000 }] : [];
      });
    });
  const rows = async (requests = 1) => {
    const query = `?key_id=${keyId}&page_size=500`;
    return await eventually(
      async () => {
        const { data } = await operate(product, 'GET', `/api/v1/requests${query}`);
        const found = (data as Json[]).filter(({ outcome }) => outcome !== 'refused');
        if (found.length < requests)
          throw new Error(`the ledger has ${found.length} of ${requests} requests`);
        return found;
      },
      { intervalMs: 50 },
    );
  };
  return {
    keyId,
    key: secret,
    policyId: String(policyId),
    mark: name,
    ask: async (path, body, asking = {}) => await answerOf(await fetch(...requestOf(path, body, asking))),
    leave: (path, body, asking) => leaveEarly(requestOf(path, body, asking), asking),
    entries: () => entries().map(({ entry }) => entry),
    billed: () => entries().reduce((sum, { cost }) => sum + cost, 0),
    billedBy(header) {
      const sums = new Map<string, number>();
      for (const { headers, cost } of entries()) {
        const value = String(headers[header]);
        sums.set(value, (sums.get(value) ?? 0) + cost);
      }
      return sums;
    },
    rows,
    charged: async (requests) =>
      (await rows(requests)).reduce((sum, row) => sum + Number(row.cost_micro_usd), 0),
  };
}

async function answerOf(response: Response): Promise<Answer> {
  const text = await response.text();
  const json = parsed(text);
  const error = (json.error ?? {}) as Json;
  return {
    status: response.status,
    headers: response.headers,
    text,
    json,
    code: String(error.code ?? error.type ?? ''),
  };
}

function parsed(text: string): Json {
  if (!text.startsWith('{') || text.length > 1_000_000) return {};
  try {
    return JSON.parse(text) as Json;
  } catch {
    return {};
  }
}

async function leaveEarly(
  [url, init]: [string, RequestInit],
  { afterBytes = 0 }: { readonly afterBytes?: number },
): Promise<void> {
  const controller = new AbortController();
  try {
    const response = await fetch(url, { ...init, signal: controller.signal });
    let seen = 0;
    for await (const part of (response.body ?? []) as AsyncIterable<Uint8Array>) {
      seen += part.length;
      if (seen >= afterBytes) break;
    }
    controller.abort();
  } catch (error) {
    if (!controller.signal.aborted) throw error;
  }
}
