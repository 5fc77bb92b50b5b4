import { create } from '@bufbuild/protobuf';
import { KeySchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { keyEntry, packedIds, packText, unpackedKey } from './keyEntry.ts';
import { PolicyTable } from './policyTable.ts';

const SOURCE = { revision: 1n, readAtMs: 12.5, maxAgeMs: 3 };

it('returns the key unchanged, and its ids, whatever characters they contain', () => {
  const text = fc.string({ unit: 'binary', maxLength: 300 });
  const table = new PolicyTable();
  fc.assert(
    fc.property(text, text, fc.boolean(), (id, principalId, disabled) => {
      const policies = [
        { bucket: { policyId: id, counterVersion: 1, subject: 'policy', windowStartMs: 5n } },
      ];
      const key = create(KeySchema, { id, principalId, disabled, policies });
      const entry = keyEntry(key, table.acquire(key), SOURCE, 0);
      expect(unpackedKey(entry)).toEqual(key);
      expect(packedIds(entry)).toEqual({ id: packText(id), principalId: packText(principalId) });
    }),
  );
});
