import { create } from '@bufbuild/protobuf';
import { KeySchema } from '@weighbridge/contracts';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { keyEntry, unpackedKey } from './keyEntry.ts';
import { KeyRows } from './keyRows.ts';

const SOURCE = { revision: 1n, readAtMs: 12.5, maxAgeMs: 3 };

it('returns the key unchanged, whatever characters it contains', () => {
  const text = fc.string({ unit: 'binary', maxLength: 300 });
  const rows = new KeyRows({ freeBytes: 0 });
  fc.assert(
    fc.property(text, text, fc.boolean(), (id, principalId, disabled) => {
      const policies = [
        { bucket: { policyId: id, counterVersion: 1, subject: 'policy', windowStartMs: 5n } },
      ];
      const key = create(KeySchema, { id, principalId, disabled, policies });
      expect(unpackedKey(keyEntry(key, rows.acquire(key), rows, SOURCE))).toEqual(key);
    }),
  );
});
