import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type AttributionDay, addCombination, countedAs, OTHER, type Values } from './attributionBound.ts';
import { CALLERS_DIMENSIONS, valuesText } from './usageSums.ts';

const text = fc.constantFrom(null, '', 'a', 'b', 'c', 'd', OTHER, '1:a', '-');
const values = fc
  .record({ user: fc.oneof(text, fc.nat({ max: 30 }).map(String)), team: text, env: text })
  .map((some): Values => ({ ...some, project: null, workload_type: null, namespace: null, workload: null }));
const day = (): AttributionDay => ({ combinations: 0, folding: 0, own: new Set() });

it('what values count under never changes, whatever comes later, and needs no more room than there is', () => {
  fc.assert(
    fc.property(fc.array(values, { maxLength: 80 }), fc.integer({ min: 0, max: 20 }), (given, max) => {
      const of = day();
      const counted: [Values, Values][] = [];
      for (const one of given) {
        addCombination(of, one, max);
        counted.push([one, countedAs(of, one)]);
        // It counts under itself, or there is no room.
        expect(of.combinations).toBeLessThanOrEqual(max);
        expect(of.own.size).toBe(of.combinations);
      }
      for (const [one, under] of counted) {
        expect(countedAs(of, one)).toEqual(under);
        // The group that it counts in is one of its own, which folds no further.
        expect(countedAs(of, under)).toEqual(under);
        for (const name of CALLERS_DIMENSIONS) expect([one[name], OTHER]).toContain(under[name]);
      }
      const groups = new Set(counted.map(([, under]) => valuesText(under)));
      const patterns = 2 ** 3;
      expect(groups.size).toBeLessThanOrEqual(max + patterns);
    }),
  );
});

it('with too many users, only the users become (other)', () => {
  const of = day();
  const given = Array.from({ length: 5_000 }, (_, n) => ({
    ...{ user: `user ${n}`, team: `team ${n % 20}`, env: 'prod' },
    ...{ project: null, workload_type: null, namespace: null, workload: null },
  }));
  for (const one of given) addCombination(of, one, 1_000);
  const counted = given.map((one) => countedAs(of, one));
  expect(counted.map(({ team, env }) => [team, env])).toEqual(given.map(({ team, env }) => [team, env]));
  expect(counted.filter(({ user }) => user !== OTHER)).toHaveLength(900);
  expect(of).toMatchObject({ combinations: 920, folding: 1 });
});

it('a raised bound gives no room on a day that had none', () => {
  const of = day();
  const values = (user: string, team: string) => ({
    ...{ user, team, env: null, project: null, workload_type: null, namespace: null, workload: null },
  });
  for (let n = 0; n < 30; n++) addCombination(of, values(`${n}`, `${n}`), 10);
  expect(of).toMatchObject({ combinations: 10, folding: 2 });
  expect(addCombination(of, values('29', '29'), 1_000)).toEqual([]);
  expect(countedAs(of, values('29', '29'))).toMatchObject({ user: OTHER, team: OTHER, env: null });
});
