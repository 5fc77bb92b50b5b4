import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import { chat, type HostileCase, PLENTY } from './hostileCase.ts';
import { operate } from './product.ts';

/** A key can't get a fresh budget, nor outlive its owner's will. */
export const KEYS: readonly HostileCase[] = [
  {
    row: 'rotating a sibling key',
    title: 'a key can rotate only keys with its own counter and attribution',
    async run({ product, tenant }) {
      const mine = await tenant();
      const sibling = async (changes: object) => {
        const { id } = await operate(product, 'POST', '/api/v1/keys', {
          name: 'sibling',
          scopes: ['inference'],
          principal_id: await principalOf(mine.keyId),
          policy_id: mine.policyId,
          ...changes,
        });
        return await manage(product, 'POST', `/api/v1/keys/${id}/rotate`, { key: mine.key, body: {} });
      };
      const principalOf = async (id: string) =>
        (await operate(product, 'GET', `/api/v1/keys/${id}`)).principal_id as string;
      // The policy counts by key, so that a sibling has its own counter.
      expect((await sibling({})).status).toBe(403);
      expect((await sibling({ attribution: { team: 'others' } })).status).toBe(403);
      expect(
        (await manage(product, 'POST', `/api/v1/keys/${mine.keyId}/rotate`, { key: mine.key, body: {} }))
          .status,
      ).toBe(200);
    },
  },
  {
    row: 'a secret in its grace',
    title: 'reads and infers, and writes no key',
    async run({ product, tenant }) {
      const mine = await tenant({ limit_micro_usd: PLENTY });
      const path = `/api/v1/keys/${mine.keyId}`;
      await operate(product, 'POST', `${path}/rotate`, { grace_seconds: 600 });
      const old = { key: mine.key };
      expect((await manage(product, 'GET', path, old)).status).toBe(200);
      expect((await mine.ask('/v1/chat/completions', chat('openai/plain'))).status).toBe(200);
      const writes = [
        await manage(product, 'POST', `${path}/rotate`, { ...old, body: {} }),
        await manage(product, 'POST', '/api/v1/keys', { ...old, body: { name: 'another' } }),
        await manage(product, 'PATCH', path, { ...old, body: { name: 'renamed' } }),
        await manage(product, 'DELETE', path, old),
      ];
      expect(writes.map(({ status }) => status)).toEqual([403, 403, 403, 403]);
    },
  },
];
