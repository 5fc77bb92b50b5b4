import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { HostileCase } from './hostileCase.ts';
import { operate, type Product } from './product.ts';

type Json = Record<string, unknown>;

/** What a tenant or an operator could do at the operator API if its operations did not all follow the same rules. */
export const CONTRACT: readonly HostileCase[] = [
  {
    row: 'another principal’s id and an unknown one are told apart',
    title: 'one 404, whatever the query and the body are',
    async run({ product, tenant }) {
      const [mine, theirs] = [await tenant(), await tenant()];
      await theirs.ask('/v1/chat/completions', { model: 'mock/echo', messages: [] });
      const bodies = [
        ['', 'application/json'],
        ['{"no_such_field":1}', 'application/json'],
        ['{', ''],
        ['{}', 'text/plain'],
        ['x'.repeat(70_000), 'application/json'],
      ] as const;
      for (const [method, path] of [
        ['GET', '/keys/ID'],
        ['GET', '/keys/ID/usage'],
        ['PATCH', '/keys/ID'],
        ['DELETE', '/keys/ID'],
        ['POST', '/keys/ID/rotate'],
      ] as const) {
        const seen = new Set<string>();
        for (const id of [theirs.keyId, `key_${'0'.repeat(26)}`, 'none', '%ff']) {
          for (const query of ['', '?no_such_parameter=1', '?wait=no']) {
            for (const [body, type] of method === 'GET' ? bodies.slice(0, 1) : bodies) {
              const target = `/api/v1${path.replace('ID', id)}${query}`;
              seen.add(await refusal(product, method, target, mine.key, body, type));
            }
          }
        }
        expect([method, path, seen.size, [...seen][0]?.slice(0, 3)]).toEqual([method, path, 1, '404']);
      }
    },
  },
  {
    row: 'a request is read before its id is known to exist',
    title: 'an unknown id is 404 before the query, for operators too',
    async run({ product }) {
      const unknown = [
        ['GET', '/requests/req_none'],
        ['GET', '/quarantine/99999999'],
        ['POST', '/quarantine/99999999/release'],
        ['POST', '/proxies/none/retire'],
        ['PUT', '/principals/%20'],
        ['PUT', '/catalog/models/no-slash'],
      ] as const;
      for (const [method, path] of unknown) {
        for (const query of ['', '?no_such_parameter=1']) {
          const { status } = await manage(product, method, `/api/v1${path}${query}`);
          expect([method, path, query, status]).toEqual([method, path, query, 404]);
        }
      }
    },
  },
  {
    row: 'a secret in its grace writes',
    title: 'an operator’s old secret changes nothing, and still reads',
    async run({ product }) {
      const body = { name: 'rotated', scopes: ['keys:read', 'keys:write', 'operator'] };
      const key = (await operate(product, 'POST', '/api/v1/keys', body)) as Json;
      await operate(product, 'POST', `/api/v1/keys/${key.id}/rotate`, { grace_seconds: 600 });
      const old = String(key.key);
      for (const [method, path, sent] of [
        ['POST', '/policies', { name: 'mine' }],
        ['PUT', '/principals/mine', { policy_id: null }],
        ['PUT', '/catalog/models/acme/mine', { context_window: 5 }],
        ['POST', '/ledger/rebuild', { apply: true }],
      ] as const) {
        const answer = await manage(product, method, `/api/v1${path}`, { key: old, body: sent });
        expect([path, answer.status, (answer.body.error as Json).code]).toEqual([
          path,
          403,
          'secret_in_grace',
        ]);
      }
      expect((await manage(product, 'GET', '/api/v1/policies', { key: old })).status).toBe(200);
    },
  },
  {
    row: 'times of which two readers make different things',
    title: 'are 400 unless they are RFC 3339, and are shown as RFC 3339',
    async run({ product }) {
      const times = [
        '2030-01-01 00:00:00Z',
        '2030-01-01\u00a000:00:00Z',
        '2030-01-01T00:00:00+0100',
        '9999-12-31T23:59:59-10:00',
        '2030-02-30T00:00:00Z',
      ];
      for (const expires_at of times) {
        const body = { name: 'a time', expires_at };
        expect([expires_at, (await manage(product, 'POST', '/api/v1/keys', { body })).status]).toEqual([
          expires_at,
          400,
        ]);
        const query = `expiring_before=${encodeURIComponent(expires_at)}`;
        expect((await manage(product, 'GET', `/api/v1/keys?${query}`)).status).toBe(400);
      }
    },
  },
  {
    row: 'two requests at once for one name',
    title: 'one gets it, the others 409, none 500; fields that no one reads are 400',
    async run({ product }) {
      const name = `wanted-${Date.now()}`;
      const body = { name, strategy: 'ordered', targets: [{ model: 'mock/echo' }] };
      const answers = await Promise.all(
        Array.from({ length: 12 }, () => manage(product, 'POST', '/api/v1/profiles', { body })),
      );
      const created = answers.filter(({ status }) => status === 201);
      expect([created.length, answers.filter(({ status }) => status === 409).length]).toEqual([1, 11]);
      const path = `/api/v1/profiles/${created[0]?.body.id}`;
      expect((await manage(product, 'DELETE', path, { body: { reason: 'typed' } })).status).toBe(400);
      // A policy that is gone holds no profile.
      const policy = (await operate(product, 'POST', '/api/v1/policies', {
        name,
        profile_id: created[0]?.body.id,
      })) as Json;
      await operate(product, 'DELETE', `/api/v1/policies/${policy.id}`);
      expect((await manage(product, 'DELETE', path)).status).toBe(200);
    },
  },
];

/** Status, headers and body of an answer, without what differs between two answers in any case. */
async function refusal(
  product: Product,
  method: string,
  path: string,
  key: string,
  body: string,
  type: string,
): Promise<string> {
  const response = await fetch(`${product.managementUrl}${path}`, {
    method,
    headers: { authorization: `Bearer ${key}`, 'content-type': type },
    ...(method !== 'GET' && { body }),
  });
  const id = response.headers.get('x-request-id') ?? '';
  return `${response.status} ${(await response.text()).replaceAll(id, '')}`;
}
