import fc from 'fast-check';
import { expect, it } from 'vitest';
import { IntrusiveSet } from './intrusiveSet.ts';

it('hold what came and did not go, whatever the order', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(fc.nat(15), fc.boolean()), { maxLength: 200 }), (steps) => {
      const items = Array.from({ length: 16 }, (_, name) => ({ name, slot: -1 }));
      const slots = new IntrusiveSet<(typeof items)[number]>();
      const expected = new Set<(typeof items)[number]>();
      for (const [index, comes] of steps) {
        const item = items[index];
        if (!item || (comes && expected.has(item))) continue;
        if (comes) {
          slots.add(item);
          expected.add(item);
        } else {
          slots.delete(item);
          expected.delete(item);
        }
        expect(new Set(slots.values())).toEqual(expected);
        expect(slots.size).toBe(expected.size);
      }
    }),
  );
});
