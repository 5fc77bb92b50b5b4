import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '@weighbridge/testing';
import { operate } from './product.ts';
import type { Scene, Tenant } from './scene.ts';

export interface OddReply {
  readonly type: 'text/event-stream' | 'application/json';
  /** In pieces, each of which is written by itself. */
  readonly pieces: Iterable<string>;
  /** The connection is cut after them. */
  readonly isCut?: boolean;
}

/** A vendor that sends what no vendor should. */
export interface OddVendor {
  readonly model: string;
  reply: OddReply;
  close(): Promise<void>;
}

/** What requests of other formats are translated to. */
export type VendorFormat = 'chat' | 'messages' | 'responses' | 'gemini';

/** The provider, where only some providers have the format. */
const PROVIDERS = { responses: 'openai', gemini: 'gemini' } as const;

/** The path of a stored response. */
const STORED = /\/responses\/(?!compact|input_tokens)/;

let vendors = 0;

/** Starts one, and makes a model of its; resolves once the model can be used. */
export async function startOddVendor({ product, tenant }: Scene, format: VendorFormat): Promise<OddVendor> {
  const name = `odd${++vendors}`;
  const known = format === 'responses' || format === 'gemini' ? PROVIDERS[format] : undefined;
  const provider = known ?? name;
  const model = known ? `${provider}/${name}` : `${name}/plain`;
  const odd = { model, reply: { type: 'application/json', pieces: [] } as OddReply };
  const server = createServer((request, response) => {
    request.resume();
    // Other cases run at the same time, and a proxy asks any account for a stored response that it does not know.
    if (STORED.test(request.url ?? '')) {
      response
        .writeHead(404, { 'content-type': 'application/json' })
        .end('{"error":{"message":"not found"}}');
      return;
    }
    const { type, pieces, isCut } = odd.reply;
    response.writeHead(200, { 'content-type': type });
    void (async () => {
      for (const piece of pieces) {
        if (!response.write(piece)) await new Promise((resolve) => response.once('drain', resolve));
      }
      if (isCut) response.destroy();
      else response.end();
    })();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  await operate(product, 'POST', '/api/v1/connectors', {
    name,
    provider,
    dialect: format === 'messages' ? 'anthropic' : 'openai',
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/${format === 'gemini' ? 'v1beta/openai' : 'v1'}`,
    credential: 'sk-odd-0123456789',
    // The others of its provider serve all models.
    models: [model],
    priority: 0,
  });
  const price = { currency_code: 'USD', units: 1, nanos: 0 };
  await operate(product, 'PUT', `/api/v1/catalog/models/${encodeURIComponent(model)}`, {
    context_window: 100_000,
    price: { input_price: price, output_price: price },
  });
  await untilKnown(await tenant(), model);
  return Object.assign(odd, {
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

async function untilKnown(tenant: Tenant, model: string): Promise<void> {
  await eventually(
    async () => {
      const body = { model, max_tokens: 9, messages: [{ role: 'user', content: 'x' }] };
      const { status } = await tenant.ask('/v1/messages', body);
      if (status === 404) throw new Error('the proxy does not know the model yet');
    },
    { intervalMs: 50 },
  );
}
