import { expect, it } from 'vitest';
import { describeEvent } from './describeEvent.ts';

it('an event of a further limit says in its title which limit it is, and whose counter', () => {
  const title = (of: Record<string, unknown>) =>
    describeEvent({
      ...{ id: 'evt_1', type: 'budget.exhausted', at: new Date(0) },
      data: { policy_id: 'pol_1', policy_name: 'shop', limit_id: 'lim_1', limit_name: 'each', ...of },
    }).title.replace('The budget is used up, requests are refused: ', '');
  const rows = [
    [{ counter: 'user', value: 'ann', value_sha256: null }, 'the limit each for user ann of the policy shop'],
    [
      { counter: 'user', value: 'a\u202eb\nc', value_sha256: null },
      'the limit each for user a b c of the policy shop',
    ],
    [
      { counter: 'session', value: null, value_sha256: 'ab12' },
      'the limit each for session with SHA-256 ab12 of the policy shop',
    ],
    [
      { counter: 'principal', value: null, value_sha256: null, principal_id: 'ada' },
      'the limit each for principal ada of the policy shop',
    ],
    [
      { counter: 'others', value: null, value_sha256: null },
      'the limit each for all others of the policy shop',
    ],
    [{ counter: 'policy', value: null, value_sha256: null }, 'the limit each of the policy shop'],
  ] as const;
  expect(rows.map(([of]) => title(of))).toEqual(rows.map(([, text]) => text));
});
