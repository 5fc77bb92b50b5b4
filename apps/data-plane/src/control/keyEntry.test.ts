import { create } from '@bufbuild/protobuf';
import { KeySchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { keyEntry, keyMessage, packedIds, packText } from './keyEntry.ts';

const SOURCE = { revision: 1n, readAtMs: 12.5, maxAgeMs: 3 };

it('returns the key unchanged, and its ids, whatever characters they contain', () => {
  const text = fc.string({ unit: 'binary', maxLength: 300 });
  fc.assert(
    fc.property(text, text, fc.boolean(), (id, principalId, disabled) => {
      const policies = [
        { bucket: { policyId: id, counterVersion: 1, subject: 'policy', windowStartMs: 5n } },
      ];
      const key = create(KeySchema, { id, principalId, disabled, policies });
      const entry = keyEntry(key, SOURCE);
      expect(keyMessage(entry)).toEqual(key);
      expect(packedIds(entry)).toEqual({ id: packText(id), principalId: packText(principalId) });
      expect(entry.policyIds).toEqual([id]);
    }),
  );
});

it('shares the policy ids among keys of the same chain', () => {
  const bucket = { policyId: 'pol_1', counterVersion: 1, subject: 'policy', windowStartMs: 0n };
  const entries = ['a', 'b'].map((id) =>
    keyEntry(create(KeySchema, { id, policies: [{ bucket }, { bucket }] }), SOURCE),
  );
  expect(entries[0]?.policyIds).toBe(entries[1]?.policyIds);
});

it('is dropped with the policies that replace its own, too', () => {
  const under = (policyId: string) => ({ bucket: { policyId } });
  const replacements = [{ profileId: 'prf_1', policies: [under('pol_2'), under('pol_3')] }];
  const key = create(KeySchema, { id: 'a', policies: [under('pol_1'), under('pol_3')], replacements });
  expect(keyEntry(key, SOURCE).policyIds).toEqual(['pol_1', 'pol_3', 'pol_2']);
});
