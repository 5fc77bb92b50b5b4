import { expect } from 'vitest';
import { manage } from '../mainJob.ts';
import type { HostileCase } from './hostileCase.ts';
import { operate } from './product.ts';

type Json = Record<string, unknown>;

/** What a tenant does at the operator API with a valid key. */
export const MANAGEMENT: readonly HostileCase[] = [
  {
    row: 'keys issued by a leaked key outlive it',
    title: 'they are revoked with it, also those that it issues at that moment',
    async run({ product, tenant }) {
      const leaked = await tenant();
      const issue = async (key: string) =>
        await manage(product, 'POST', '/api/v1/keys', {
          key,
          body: { name: 'hidden', scopes: ['keys:write'] },
        });
      const child = (await issue(leaked.key)).body as Json;
      const grandchild = (await issue(String(child.key))).body as Json;
      const racing = Promise.all(
        Array.from({ length: 8 }, (_, n) => issue(n % 2 === 0 ? leaked.key : String(child.key))),
      );
      const path = `/api/v1/keys/${leaked.keyId}?descendants=true&wait=propagated`;
      const revoked = await operate(product, 'DELETE', path);
      const late = (await racing).filter(({ status }) => status === 201).map(({ body }) => body as Json);
      for (const { key } of [child, grandchild, ...late]) {
        const answer = await manage(product, 'GET', '/api/v1/models', { key: String(key) });
        expect(answer.status).toBe(401);
        const inference = await fetch(`${product.inferenceUrl}/v1/models`, {
          headers: { authorization: `Bearer ${key}` },
        });
        expect(inference.status).toBe(401);
      }
      expect(revoked).toMatchObject({ descendants: { revoked: 2 + late.length, unknown_issuer: 0 } });
    },
  },
  {
    row: '1,001 keys by one principal',
    title: 'the principal has a thousand keys, however many requests ask at once',
    async run({ product, tenant }) {
      const mine = await tenant();
      let issued = 1;
      const codes = new Set<string>();
      const issueOne = async () => {
        const body = { name: 'one of many', scopes: ['inference'] };
        const answer = await manage(product, 'POST', '/api/v1/keys', { key: mine.key, body });
        if (answer.status === 201) issued++;
        else codes.add(`${answer.status} ${((answer.body as Json).error as Json).code}`);
      };
      const worker = async () => {
        while (issued < 1_010 && codes.size === 0) await issueOne();
      };
      await Promise.all(Array.from({ length: 12 }, worker));
      expect([issued, [...codes]]).toEqual([1_000, ['409 key_limit_reached']]);
    },
  },
];
