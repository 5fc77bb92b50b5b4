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

let vendors = 0;

/** Starts one, and makes a model of its; resolves once the model can be used. */
export async function startOddVendor(
  { product, tenant }: Scene,
  dialect: 'openai' | 'anthropic',
): Promise<OddVendor> {
  const provider = `odd${++vendors}`;
  const model = `${provider}/plain`;
  const odd = { model, reply: { type: 'application/json', pieces: [] } as OddReply };
  const server = createServer((request, response) => {
    request.resume();
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
    name: provider,
    provider,
    dialect,
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    credential: 'sk-odd-0123456789',
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
    { timeoutMs: 10_000, intervalMs: 50 },
  );
}
