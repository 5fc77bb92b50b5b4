import { eventually } from '@weighbridge/testing';
import OpenAI from 'openai';
import { expect } from 'vitest';

export interface Service {
  /** The base URL of `/api/v1`. */
  readonly managementUrl: string;
  /** The base URL of `/v1`. */
  readonly inferenceUrl: string;
  readonly operatorKey: string;
}

type Json = Record<string, unknown>;

/** Calls the operator API; returns the status and the body. */
export async function manage(
  service: Service,
  method: string,
  path: string,
  options: { readonly body?: unknown; readonly key?: string } = {},
): Promise<{ status: number; body: Json }> {
  const response = await fetch(`${service.managementUrl}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${options.key ?? service.operatorKey}`,
      ...(options.body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(options.body !== undefined && { body: JSON.stringify(options.body) }),
  });
  return { status: response.status, body: (await response.json()) as Json };
}

export function sdk(service: Service, apiKey: string): OpenAI {
  return new OpenAI({ apiKey, baseURL: `${service.inferenceUrl}/v1`, maxRetries: 0 });
}

/** Asks the model that answers with the question. */
export async function ask(service: Service, apiKey: string): Promise<void> {
  const messages = [{ role: 'user' as const, content: 'What does a weighbridge weigh?' }];
  await sdk(service, apiKey).chat.completions.create({ model: 'mock/echo', messages });
}

/** The ten attribution headers of the interface, all set. */
export const ATTRIBUTION_HEADERS = {
  'X-Svc-Session-Id': 'conversation-1',
  'X-Svc-User': 'ada',
  'X-Svc-Team': 'engines',
  'X-Svc-Project': 'notes',
  'X-Svc-Env': 'prod',
  'X-Svc-Labels': 'tier=gold,malformed,region = eu ',
  'X-Svc-Workload-Type': 'chat',
  'X-Svc-Namespace': 'apps',
  'X-Svc-Workload': 'web',
  'X-Svc-Pod': 'web-0',
};

/**
 * The main job, as a user does it: issue a key, complete with the official SDK, streamed and not, and find exactly
 * Σ tokens × price in the usage report. The price is that of the catalog, the tokens are those in the responses.
 */
export async function mainJob(
  service: Service,
  model: string,
): Promise<{ keyId: string; spentMicroUsd: number }> {
  const principal = `app-${Math.random().toString(36).slice(2)}`;
  const created = await manage(service, 'POST', '/api/v1/keys', {
    body: { name: 'app', principal_id: principal, scopes: ['inference', 'usage:read'] },
  });
  expect(created.status).toBe(201);
  const { id: keyId, key } = created.body as { id: string; key: string };
  const client = sdk(service, key);
  const messages = [{ role: 'user' as const, content: 'What does a weighbridge weigh?' }];
  const used: OpenAI.CompletionUsage[] = [];

  const plain = await client.chat.completions
    .create({ model, messages }, { headers: ATTRIBUTION_HEADERS })
    .withResponse();
  expect(plain.data.choices[0]?.message.content).toContain('weighbridge');
  expect(plain.response.headers.get('x-svc-model')).toBe(model);
  expect(plain.response.headers.get('x-request-id')).toMatch(/^req_/);
  if (plain.data.usage) used.push(plain.data.usage);

  // A client that requests usage gets its chunk …
  const asked = await client.chat.completions.create({
    model,
    messages,
    stream: true,
    stream_options: { include_usage: true },
  });
  for await (const chunk of asked) if (chunk.usage) used.push(chunk.usage);
  expect(used).toHaveLength(2);

  // … and one that does not never gets it, and pays the same.
  const notAsked = await client.chat.completions.create({ model, messages, stream: true });
  let text = '';
  for await (const chunk of notAsked) {
    expect(chunk.choices).not.toEqual([]);
    text += chunk.choices[0]?.delta.content ?? '';
  }
  expect(text).toContain('weighbridge');
  used.push(used[1] as OpenAI.CompletionUsage);

  const expected = await costMicroUsd(service, model, used);
  expect(plain.response.headers.get('x-svc-cost-micro-usd')).toBe(
    String(await costMicroUsd(service, model, used.slice(0, 1))),
  );
  await eventually(
    async () => {
      const { body } = await manage(service, 'GET', '/api/v1/usage', { key });
      expect(body).toMatchObject({
        bucket_spent_micro_usd: expected,
        principal_spent_micro_usd: expected,
        remaining_micro_usd: 10_000_000 - expected,
        limit_micro_usd: 10_000_000,
        source: 'default',
        counter_scope: 'principal',
      });
    },
    { intervalMs: 50 },
  );
  const ofKey = await manage(service, 'GET', `/api/v1/keys/${keyId}/usage`);
  expect(ofKey.body).toMatchObject({ bucket_spent_micro_usd: expected });
  return { keyId, spentMicroUsd: expected };
}

/** Each request is rounded half up to a nano-USD, their sum half up to a micro-USD. */
async function costMicroUsd(
  service: Service,
  model: string,
  used: readonly OpenAI.CompletionUsage[],
): Promise<number> {
  const { body } = await manage(service, 'GET', '/api/v1/models?page_size=500');
  type Price = { units: number; nanos: number };
  type Listed = { model: string; input_price: Price; output_price: Price; cache_read_price: Price };
  const listed = (body.data as Listed[]).find((entry) => entry.model === model);
  if (!listed) throw new Error(`${model} is not listed`);
  const nano = ({ units, nanos }: Price) => BigInt(units) * 1_000_000_000n + BigInt(nanos);
  let sum = 0n;
  for (const usage of used) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const exact =
      BigInt(usage.prompt_tokens - cached) * nano(listed.input_price) +
      BigInt(cached) * nano(listed.cache_read_price) +
      BigInt(usage.completion_tokens) * nano(listed.output_price);
    sum += (exact + 500_000n) / 1_000_000n;
  }
  return Number((sum + 500n) / 1_000n);
}
