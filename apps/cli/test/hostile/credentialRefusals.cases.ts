import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { eventually } from '@weighbridge/testing';
import { expect } from 'vitest';
import { chat, type HostileCase } from './hostileCase.ts';
import { operate } from './product.ts';
import type { Scene } from './scene.ts';

/** What a tenant can do to others by requests that a vendor refuses as if our account were at fault. */
export const CREDENTIAL_REFUSALS: readonly HostileCase[] = [
  {
    row: "a vendor's 401 and 403 for our credential",
    title:
      'that one tenant provokes by what it asks for take no connector from the others, and raise no alert',
    run: provokedRefusals,
  },
];

/** What vendors say of a model, file or price that the account may not have, and a firewall of a text. */
const PROVOKED: readonly (readonly [number, string])[] = [
  [
    403,
    '{"type":"error","error":{"type":"permission_error","message":"Your API key does not have permission to use the specified resource."}}',
  ],
  [
    403,
    '{"error":{"message":"Project `proj_1` does not have access to model `gpt-x`","type":"invalid_request_error","code":"model_not_found"}}',
  ],
  [
    403,
    '[{"error":{"code":403,"message":"You do not have permission to access the File x or it may not exist.","status":"PERMISSION_DENIED"}}]',
  ],
  [403, '{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"no access to the model"}'],
  [403, '<html><title>Attention Required!</title></html>'],
  [403, ''],
  [
    401,
    '{"error":{"message":"You have insufficient permissions for this operation. Missing scopes: api.responses.write.","type":"invalid_request_error"}}',
  ],
  [402, '{"error":{"code":402,"message":"This request requires more credits, or fewer max_tokens."}}'],
];

async function provokedRefusals(scene: Scene): Promise<void> {
  const preferred = await startVendor({ refuses: true });
  const other = await startVendor({ refuses: false });
  try {
    const connectors = await connectBoth(scene, preferred.url, other.url);
    const [attacker, victim] = [await scene.tenant(), await scene.tenant()];
    for (const [at, [status, body]] of PROVOKED.entries()) {
      preferred.refusal = { status, body };
      for (let times = 0; times < 3; times++) {
        const refused = await attacker.ask(
          '/v1/chat/completions',
          chat('provoked/plain', { user: 'provoke' }),
        );
        if (status !== 402) expect([refused.status, refused.code]).toEqual([502, 'connector_unauthorized']);
      }
      const before = preferred.served;
      const answer = await victim.ask('/v1/chat/completions', chat('provoked/plain'));
      expect([answer.status, preferred.served], `refusal ${at}`).toEqual([200, before + 1]);
    }
    const blamed = scene.product
      .output()
      .split('\n')
      .filter((line) => line.includes('the vendor refused the credential of a connector'))
      .filter((line) => connectors.some((id) => line.includes(id)));
    expect(blamed).toEqual([]);
  } finally {
    await preferred.close();
    await other.close();
  }
}

/** Two accounts of one provider; the first is used while it works. Resolves once both are known to the proxy. */
async function connectBoth({ product, tenant }: Scene, ...urls: readonly string[]): Promise<string[]> {
  const ids: string[] = [];
  for (const [at, base_url] of urls.entries()) {
    const { id } = await operate(product, 'POST', '/api/v1/connectors', {
      name: `provoked-${at}`,
      provider: 'provoked',
      dialect: 'openai',
      base_url,
      credential: 'sk-provoked-0123456789',
      priority: 1_000 + at,
    });
    ids.push(String(id));
  }
  const price = { currency_code: 'USD', units: 1, nanos: 0 };
  await operate(product, 'PUT', '/api/v1/catalog/models/provoked%2Fplain', {
    context_window: 100_000,
    price: { input_price: price, output_price: price },
  });
  const tried = await tenant();
  await eventually(
    async () => {
      const { status } = await tried.ask('/v1/chat/completions', chat('provoked/plain'));
      if (status !== 200) throw new Error('the proxy does not know the model yet');
    },
    { intervalMs: 50 },
  );
  return ids;
}

/** A vendor with a working credential; one that `refuses` refuses what asks for it. */
async function startVendor({ refuses }: { readonly refuses: boolean }) {
  const vendor = { url: '', refusal: { status: 403, body: '' }, served: 0, close: async () => {} };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const isProvoked = refuses && Buffer.concat(chunks).includes('provoke"');
    if (isProvoked) {
      response.writeHead(vendor.refusal.status, { 'content-type': 'application/json' });
      response.end(vendor.refusal.body);
      return;
    }
    if (request.method === 'POST') vendor.served++;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(request.method === 'POST' ? COMPLETION : '{"object":"list","data":[]}');
  };
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  vendor.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  vendor.close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  return vendor;
}

const COMPLETION = JSON.stringify({
  id: 'chatcmpl-1',
  object: 'chat.completion',
  model: 'plain',
  choices: [{ index: 0, message: { role: 'assistant', content: 'ok' }, finish_reason: 'stop' }],
  usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
});
