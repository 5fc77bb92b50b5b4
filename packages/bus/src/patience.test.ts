import { describe, expect, it } from 'vitest';
import { createPatience } from './patience.ts';

function started() {
  let now = 0;
  const patience = createPatience(() => now);
  return {
    ask: (isAnswered: boolean) => {
      const end = patience.begin();
      end?.(isAnswered);
      return end !== undefined;
    },
    begin: () => patience.begin(),
    pass: (ms: number) => {
      now += ms;
    },
  };
}

describe('the patience with a server', () => {
  it('lasts while it answers now and then', () => {
    const { ask } = started();
    for (let at = 0; at < 30; at++) expect(ask(at % 3 === 2)).toBe(true);
  });

  it('is over after three questions without an answer, but for one probe a second', () => {
    const { ask, pass } = started();
    for (let at = 0; at < 3; at++) expect(ask(false)).toBe(true);
    expect(ask(false)).toBe(false);
    pass(999);
    expect(ask(false)).toBe(false);
    pass(1);
    expect([ask(false), ask(false)]).toEqual([true, false]);
    pass(1_000);
    expect([ask(true), ask(true), ask(true)]).toEqual([true, true, true]);
  });

  it('does not take the questions that were out together for probes', () => {
    const { begin, pass } = started();
    const out = Array.from({ length: 100 }, begin);
    for (const end of out) end?.(false);
    expect(begin()).toBeUndefined();
    pass(1_000);
    expect([begin(), begin()]).toEqual([expect.any(Function), undefined]);
  });
});
