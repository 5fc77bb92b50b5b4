import fc from 'fast-check';
import { expect, it } from 'vitest';
import { IntrusiveSet } from './intrusiveSet.ts';

it('contains the items that were added and not deleted, in any order of operations', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(15), fc.boolean()), { maxLength: 200 }), (steps) => {
      const items = Array.from({ length: 16 }, (_, name) => ({ name, slot: -1 }));
      const set = new IntrusiveSet<(typeof items)[number]>();
      const expected = new Set<(typeof items)[number]>();
      for (const [index, isAdded] of steps) {
        const item = items[index];
        if (!item || (isAdded && expected.has(item))) continue;
        if (isAdded) {
          set.add(item);
          expected.add(item);
        } else {
          set.delete(item);
          expected.delete(item);
        }
        expect(new Set(set.values())).toEqual(expected);
        expect(set.size).toBe(expected.size);
      }
    }),
  );
});
