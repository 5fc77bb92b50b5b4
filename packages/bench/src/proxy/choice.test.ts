import { expect, it } from 'vitest';
import { chosen } from './choice.ts';

const NAMES = ['direct', 'bare Node', 'Weighbridge', 'Weighbridge, two processes'];

it('prefers the whole name to its start, and names what there is', () => {
  expect(chosen(NAMES, ['BARE', 'weighbridge'])).toEqual(['bare Node', 'Weighbridge']);
  expect(chosen(NAMES, ['weigh'])).toEqual(NAMES.slice(2));
  expect(() => chosen(NAMES, ['nginx'])).toThrow('nothing is called nginx: choose among direct, bare Node');
});
