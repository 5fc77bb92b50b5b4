import { createTestDatabase, eventually, type TestDatabase } from '@weighbridge/testing';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Service } from './mainJob.ts';
import type { RunningProcess } from './processes.ts';
import { addRareRecords } from './rareRecords.ts';
import { newDataDir, removeDataDir, startUp } from './startUp.ts';

/** Sends the examples of the published document as they are, on the paths that its links lead to. */

interface Link {
  readonly operationId: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly requestBody?: Readonly<Record<string, unknown>>;
}
interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly { in: string; name: string; example?: string }[];
  readonly requestBody?: {
    readonly content: { 'application/json': { example: Readonly<Record<string, unknown>> } };
  };
  readonly responses: Readonly<Record<string, { links?: Readonly<Record<string, Link>> }>>;
}
interface Exchange {
  /** The path parameters of the request. */
  readonly sent?: Readonly<Record<string, string>>;
  readonly status: number;
  readonly headers: Headers;
  readonly body: unknown;
}

/**
 * The example of a response is finished at once, quarantined usage is either released or discarded, a held price is either
 * approved or rejected, and no feed of prices is configured. Other tests show their success: everyOperation of the control
 * plane, and responses of the data plane.
 */
const TOO_LATE: Readonly<Record<string, number>> = {
  cancelResponse: 400,
  discardQuarantined: 409,
  refreshCatalogFeed: 409,
  rejectFeedChange: 409,
};
/** Creates first, and deletes last: what comes first is what the links of others lead to. */
const STAGES: readonly ((method: string, operation: Operation) => boolean)[] = [
  (method, { operationId }) => method === 'put' && !/(Price|Member)$/.test(operationId),
  (method, { operationId }) => method === 'post' && /^create(?!Correction|CatalogPrice)/.test(operationId),
  (method) => method === 'get',
  (method, { operationId }) => method !== 'delete' && !/^(rotate|cancel)/.test(operationId),
  (method) => method !== 'delete',
  (_, { operationId }) => /Price|Response|Member/.test(operationId),
  () => true,
];

let database: TestDatabase;
let dataDir: string;
let process: RunningProcess;
let service: Service;
let keys: { readonly management: string; readonly inference: string };
let operations: { method: string; path: string; operation: Operation }[];
/** By target: the parameters and the body that the first link to it said. */
const linked = new Map<string, { parameters: Record<string, string>; body: Record<string, unknown> }>();

beforeAll(async () => {
  dataDir = await newDataDir('weighbridge-examples-');
  database = await createTestDatabase();
  ({ process, service } = await startUp(dataDir, { DATABASE_URL: database.url }));
  await addRareRecords(database.url);
  const response = await fetch(`${service.managementUrl}/api/v1/openapi.json`);
  const document = (await response.json()) as { paths: Record<string, Record<string, Operation>> };
  operations = Object.entries(document.paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ method, path, operation })),
  );
  const body = { name: 'examples', scopes: ['inference'], principal_id: 'examples' };
  const issued = await send('POST', '/api/v1/keys', service.operatorKey, body);
  keys = { management: service.operatorKey, inference: (issued.body as { key: string }).key };
});
afterAll(async () => {
  await process?.stop();
  await database?.drop();
  await removeDataDir(dataDir);
});

async function send(method: string, path: string, key: string, body?: unknown): Promise<Exchange> {
  const response = await fetch(`${service.managementUrl}${path}`, {
    method,
    headers: {
      ...(key !== '' && { authorization: `Bearer ${key}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.includes('json');
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text };
}

/** The value of a runtime expression; a text that is none stands for itself. */
function evaluate(expression: unknown, { sent, headers, body }: Exchange): unknown {
  if (typeof expression !== 'string' || !expression.startsWith('$')) return expression;
  const parameter = /^\$request\.path\.(.+)$/.exec(expression)?.[1];
  if (parameter) return sent?.[parameter];
  const header = /^\$response\.header\.(.+)$/.exec(expression)?.[1];
  if (header) return headers.get(header);
  const pointer = expression.replace('$response.body#/', '').split('/');
  return pointer.reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], body);
}

function follow({ responses }: Operation, exchange: Exchange): void {
  for (const { operationId, parameters = {}, requestBody = {} } of Object.values(
    responses[exchange.status]?.links ?? {},
  )) {
    if (linked.has(operationId)) continue;
    const values = Object.entries(parameters).map(([name, value]) => [name, evaluate(value, exchange)]);
    if (values.some(([, value]) => value === undefined)) continue;
    const body = Object.entries(requestBody).map(([name, value]) => [name, evaluate(value, exchange)]);
    linked.set(operationId, { parameters: Object.fromEntries(values), body: Object.fromEntries(body) });
  }
}

async function sendExample({ method, path, operation }: (typeof operations)[number]): Promise<Exchange> {
  const { parameters = {}, body = {} } = linked.get(operation.operationId) ?? {};
  const sent: Record<string, string> = {};
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const example = operation.parameters?.find((one) => one.in === 'path' && one.name === name)?.example;
    sent[name] = parameters[name] ?? example ?? '';
    return encodeURIComponent(sent[name]);
  });
  const example = operation.requestBody?.content['application/json'].example;
  const key = path.startsWith('/api/') ? keys.management : keys.inference;
  return { sent, ...(await send(method.toUpperCase(), filled, key, example && { ...example, ...body })) };
}

describe('the examples of the document', () => {
  it('succeed as they are, on a new service', async () => {
    const sent = new Set<string>();
    for (const [stage, isOf] of STAGES.entries()) {
      if (stage === 2) await requestIsRecorded();
      for (const one of operations) {
        const { operationId } = one.operation;
        if (sent.has(operationId) || !isOf(one.method, one.operation)) continue;
        const exchange = await sendExample(one);
        const documented = Object.keys(one.operation.responses).filter((status) => status.startsWith('2'));
        const expected =
          TOO_LATE[operationId] ?? (documented.includes(String(exchange.status)) && exchange.status);
        expect([operationId, exchange.status, JSON.stringify(exchange.body)]).toEqual([
          operationId,
          expected,
          expect.any(String),
        ]);
        follow(one.operation, exchange);
        sent.add(operationId);
      }
    }
    expect(sent.size).toBe(operations.length);
    const withId = operations.filter(({ path }) => path.includes('{'));
    expect(withId.filter(({ operation }) => !linked.has(operation.operationId))).toEqual([]);
  });
});

/** The ledger has a request soon after its response, not at once. */
async function requestIsRecorded(): Promise<void> {
  const id = linked.get('getRequest')?.parameters.request_id ?? '';
  await eventually(async () => {
    const { status } = await send('GET', `/api/v1/requests/${id}`, keys.management);
    expect(status).toBe(200);
  });
}

/** Everyone has a key with all scopes. Under `/v1` no role reads or changes what is another's. */
const HOLDERS = ['member', 'lead', 'other-lead', 'finance', 'auditor', 'operator'] as const;
const OWN_RESPONSE = ['getResponse', 'deleteResponse', 'listResponseInputItems', 'cancelResponse'];

describe('inference', () => {
  const held = new Map<string, string>();
  const refused: [key: string | undefined, code: string][] = [];
  const operate = async (method: string, path: string, body: object) => {
    const answer = await send(method, `/api/v1${path}`, keys.management, body);
    expect(answer.status, JSON.stringify(answer.body)).toBeLessThan(300);
    return answer.body as { id: string; key: string };
  };

  beforeAll(async () => {
    for (const [team, lead] of [
      ['team', 'lead'],
      ['other team', 'other-lead'],
    ]) {
      const { id } = await operate('POST', '/teams', { name: `inference ${team}` });
      await operate('PUT', `/teams/${id}/members/${lead}`, { role: 'lead' });
      if (team === 'team') await operate('PUT', `/teams/${id}/members/member`, { role: 'member' });
    }
    for (const role of ['finance', 'auditor', 'operator'])
      await operate('PUT', `/principals/${role}`, { role });
    const scopes = ['inference', 'keys:read', 'keys:write', 'usage:read', 'models:read'];
    const issue = (fields: object) => operate('POST', '/keys', { name: 'inference', scopes, ...fields });
    for (const principal_id of HOLDERS) held.set(principal_id, (await issue({ principal_id })).key);
    const expired = await issue({ expires_at: new Date(Date.now() + 2_000).toISOString() });
    refused.push(
      [undefined, 'missing_api_key'],
      ['sk-svc-nonsense', 'invalid_api_key'],
      [(await issue({ disabled: true })).key, 'key_disabled'],
      [expired.key, 'key_expired'],
    );
    await eventually(async () => expect((await send('GET', '/v1/models', expired.key)).status).toBe(401));
  });

  const inference = () => operations.filter(({ path }) => path.startsWith('/v1'));
  /** The answer to the example, about the given response and request. */
  async function call(
    { method, path, operation }: (typeof operations)[number],
    key = '',
    [response, request]: readonly [response: string, request: string] = ['', ''],
  ) {
    const filled = path
      .replace('{response_id}', response)
      .replace('{model}', encodeURIComponent('mock/echo'));
    const example = operation.requestBody?.content['application/json'].example;
    const body = example && 'request_id' in example ? { ...example, request_id: request } : example;
    return await send(method.toUpperCase(), filled, key, body);
  }
  /** A stored response, and the request that made it. */
  async function newResponse(key = ''): Promise<[response: string, request: string]> {
    const create = operations.find(({ operation }) => operation.operationId === 'createResponse');
    if (!create) throw new Error('there is no such operation');
    const { body, headers } = await call(create, key);
    return [String((body as { id?: string }).id), headers.get('x-request-id') ?? ''];
  }

  it('refuses every operation without a key, and with one that is bad, disabled or expired', async () => {
    expect(inference().length).toBeGreaterThan(20);
    for (const one of inference()) {
      for (const [key, code] of refused) {
        const { status, body } = await call(one, key, ['resp_none', 'req_none']);
        expect([one.operation.operationId, code, status]).toEqual([one.operation.operationId, code, 401]);
        expect(JSON.stringify(body)).toMatch(/key/);
      }
    }
  });

  it.each(HOLDERS)('does for a %s its own, and no other’s', async (holder) => {
    const key = held.get(holder);
    const others = await newResponse(keys.inference);
    const unknown = [`${others[0].slice(0, -4)}none`, ''] as const;
    for (const one of inference()) {
      const { operationId, responses } = one.operation;
      const isAboutOne = OWN_RESPONSE.includes(operationId);
      const own = isAboutOne || operationId === 'giveFeedback' ? await newResponse(key) : undefined;
      const { status, body } = await call(one, key, own);
      const documented = Object.keys(responses).filter((each) => each.startsWith('2'));
      const expected = TOO_LATE[operationId] ?? (documented.includes(String(status)) && status);
      expect([operationId, status, JSON.stringify(body)]).toEqual([
        operationId,
        expected,
        expect.any(String),
      ]);
      if (!isAboutOne) continue;
      const answers = [await call(one, key, others), await call(one, key, unknown)];
      expect([operationId, ...answers.map((answer) => answer.status)]).toEqual([operationId, 404, 404]);
    }
  });
});
