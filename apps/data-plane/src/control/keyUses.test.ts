import { expect, it } from 'vitest';
import { KeyUses } from './keyUses.ts';

const NOW = 1_000_000;
const ids = (uses: readonly { keyId: string }[]) => uses.map(({ keyId }) => keyId);

it('reports each key once with the age of its last use, every ten seconds', () => {
  const uses = new KeyUses();
  uses.note('a', NOW - 3_000);
  uses.note('a', NOW - 1_000);
  uses.note('b', NOW - 2_000);
  expect(uses.report(0, NOW)).toEqual([
    { keyId: 'a', ageMs: 1_000n },
    { keyId: 'b', ageMs: 2_000n },
  ]);
  uses.note('b', NOW);
  expect(uses.report(9_999, NOW)).toEqual([]);
  expect(uses.report(10_000, NOW + 500)).toEqual([{ keyId: 'b', ageMs: 500n }]);
  expect(uses.report(20_000, NOW)).toEqual([]);
});

it('reports at once what is used after a pause, and with the last status what is not due', () => {
  const uses = new KeyUses();
  uses.note('a', NOW);
  uses.report(0, NOW);
  uses.note('b', NOW);
  expect(ids(uses.report(60_000, NOW))).toEqual(['b']);
  uses.note('c', NOW);
  expect(ids(uses.report(60_001, NOW))).toEqual([]);
  expect(ids(uses.report(60_002, NOW, { isLast: true }))).toEqual(['c']);
});

it('splits many keys over consecutive statuses, and is bounded', () => {
  const uses = new KeyUses();
  for (let n = 0; n < 200_010; n++) uses.note(`key ${n}`, NOW);
  uses.note('key 5', NOW + 1);
  const seen = new Set<string>();
  for (let at = 0; at < 100; at++) {
    const reported = ids(uses.report(at, NOW));
    expect(reported.length).toBeLessThanOrEqual(5_000);
    for (const id of reported) seen.add(id);
  }
  expect(seen.size).toBe(200_000);
});

it('sends again what a lost stream may have lost, but no older use than it knows', () => {
  const uses = new KeyUses();
  uses.note('confirmed', NOW);
  uses.report(0, NOW);
  uses.confirm(0);
  uses.note('lost', NOW);
  uses.note('used again', NOW - 9_000);
  uses.report(20_000, NOW);
  uses.note('used again', NOW);
  uses.resend();
  expect(uses.report(40_000, NOW)).toEqual([
    { keyId: 'used again', ageMs: 0n },
    { keyId: 'lost', ageMs: 0n },
  ]);
  // A clock that was set back makes no negative age.
  uses.note('ahead', NOW + 5_000);
  expect(uses.report(60_000, NOW)).toEqual([{ keyId: 'ahead', ageMs: 0n }]);
});
