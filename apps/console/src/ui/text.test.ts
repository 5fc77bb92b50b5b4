import { expect, it } from 'vitest';
import {
  alignedMoney,
  bytes,
  fineMilliseconds,
  milliseconds,
  money,
  nanoMoney,
  percent,
  roughCount,
  roughMoney,
  span,
  visible,
} from './text.ts';

it('shows money in USD with every digit down to the micro-dollar', () => {
  expect([0, 1, 10_000, 1_234_567, 1_234_500_000, -5, 9_007_199_254].map(money)).toEqual([
    '$0.00',
    '$0.000001',
    '$0.01',
    '$1.234567',
    '$1,234.50',
    '−$0.000005',
    '$9,007.199254',
  ]);
  expect([0, 10_000, 1_234_567_890_120, -5].map(alignedMoney)).toEqual([
    '$0.000000',
    '$0.010000',
    '$1,234,567.890120',
    '−$0.000005',
  ]);
  expect(['0', '1', '250750', '1230000000', '9007199254740991'].map(nanoMoney)).toEqual([
    '$0.00',
    '$0.000000001',
    '$0.00025075',
    '$1.23',
    '$9,007,199.254740991',
  ]);
});

it('makes controls and marks of direction in names visible', () => {
  expect(visible('a\u0000b\nc\u202Ed\u200b')).toBe('a␀b␊c⟨U+202E⟩d⟨U+200B⟩');
  expect(visible('<b>Ünïcode 名前</b>')).toBe('<b>Ünïcode 名前</b>');
});

it('says shares and durations as people do', () => {
  expect([percent(1, 3), percent(1, 0)]).toEqual(['33.3%', '–']);
  expect([span(-1), span(45 * 60_000), span(5 * 3_600_000), span(72 * 3_600_000)]).toEqual([
    '0 min',
    '45 min',
    '5 h',
    '3 d',
  ]);
  expect([0.214, 3.2].map(fineMilliseconds)).toEqual(['0.21 ms', '3.2 ms']);
  expect([0, 1.25, 84.4, 1_519, 7_200_000].map(milliseconds)).toEqual([
    '0 ms',
    '1.3 ms',
    '84 ms',
    '1.52 s',
    '2 h',
  ]);
});

it('rounds for axes and sizes', () => {
  expect([0, 999, 1_500, 2_000_000_000].map(bytes)).toEqual(['0 B', '999 B', '1.5 KB', '2.0 GB']);
  expect([roughMoney(1_234_567_000), roughMoney(20_000), roughCount(12_345)]).toEqual([
    '$1.23K',
    '$0.02',
    '12.3K',
  ]);
});
