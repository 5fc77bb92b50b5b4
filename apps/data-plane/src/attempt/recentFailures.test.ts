import { describe, expect, it } from 'vitest';
import type { Target } from '../control/target.ts';
import { RecentFailures } from './recentFailures.ts';

const target = (model: string, connector = 'con_1') =>
  ({ model: { id: model }, connector: { id: connector } }) as Target;

describe('failures of a moment ago', () => {
  it('count for ten seconds, for their key and target alone', () => {
    let nowMs = 0;
    const failures = new RecentFailures(() => nowMs);
    failures.note('key_1', target('a'));
    nowMs = 9_999;
    expect(failures.has('key_1', target('a'))).toBe(true);
    expect(failures.has('key_2', target('a'))).toBe(false);
    expect(failures.has('key_1', target('b'))).toBe(false);
    expect(failures.has('key_1', target('a', 'con_2'))).toBe(false);
    nowMs = 10_000;
    expect(failures.has('key_1', target('a'))).toBe(false);
    expect(failures.size).toBe(0);
  });

  it('end with the first success', () => {
    const failures = new RecentFailures(() => 0);
    failures.note('key_1', target('a'));
    failures.forget('key_1', target('a'));
    expect(failures.has('key_1', target('a'))).toBe(false);
  });

  it('are bounded: the oldest are forgotten', () => {
    const failures = new RecentFailures(() => 0);
    for (let at = 0; at < 10_010; at++) failures.note(`key_${at}`, target('a'));
    failures.note('key_5000', target('a'));
    expect(failures.size).toBe(10_000);
    expect(failures.has('key_9', target('a'))).toBe(false);
    expect(failures.has('key_10', target('a'))).toBe(true);
  });
});
