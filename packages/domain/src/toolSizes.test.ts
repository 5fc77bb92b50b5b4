import { describe, expect, it } from 'vitest';
import { dearestPrices } from './dearestPrices.ts';
import { standardUsage } from './meteredUsage.ts';
import type { ModelPrice } from './modelPrice.ts';
import { costOf } from './pricing.ts';
import { NO_TOKENS } from './tokenUsage.ts';
import {
  CONTAINER_SIZES,
  inContainerOf,
  largestContainerGb,
  sizedTool,
  toolOfSized,
  withSizes,
} from './toolSizes.ts';

const rates = { input: 1n, output: 1n, cacheRead: 1n, cacheWrite: 1n, cacheWrite1h: 1n };
const price = (toolPrices: ModelPrice['toolPrices']): ModelPrice => ({
  ...rates,
  version: 1,
  tiers: [],
  variants: [],
  toolPrices,
});
const costOfUse = (tool: string, of: ModelPrice, others: readonly ModelPrice[] = []) =>
  costOf({ ...standardUsage(NO_TOKENS), toolUses: { [tool]: 1 } }, of, dearestPrices([of, ...others]));

describe('a tool in a container', () => {
  it('has its own name without a size, and in the smallest', () => {
    expect(CONTAINER_SIZES.map((size) => sizedTool('shell', size))).toEqual([
      'shell',
      'shell_4g',
      'shell_16g',
      'shell_64g',
    ]);
    expect(sizedTool('shell', '48g')).toBe('shell_64g');
    expect(sizedTool('shell', undefined)).toBe('shell_64g');
    expect(['shell_4g', 'shell', 'web_search_4g', 'code_interpreter_64g'].map(toolOfSized)).toEqual([
      'shell',
      undefined,
      undefined,
      'code_interpreter',
    ]);
  });

  it('counts in the dearest size that was asked for, and in the dearest of all if none was', () => {
    const uses = { code_interpreter: 2, web_search: 1 };
    expect(withSizes(uses, ['code_interpreter'])).toEqual({ code_interpreter: 2, web_search: 1 });
    expect(withSizes(uses, ['code_interpreter_16g', 'code_interpreter', 'shell_64g'])).toEqual({
      code_interpreter_16g: 2,
      web_search: 1,
    });
    expect(withSizes(uses, [])).toEqual({ code_interpreter_64g: 2, web_search: 1 });
  });

  it('costs the dearest known price of its size if the model has none, and no less than the model has for a smaller one', () => {
    const none = costOfUse('shell_64g', price({ web_search: 1n }));
    expect([none.costNanoUsd, none.unpriced]).toEqual([1_920_000_000n, ['tool:shell_64g']]);
    expect(costOfUse('shell_4g', price({ shell: 500_000_000n })).costNanoUsd).toBe(500_000_000n);
    const other = price({ shell_64g: 3_000_000_000n });
    expect(costOfUse('shell_64g', price({ web_search: 1n }), [other]).costNanoUsd).toBe(3_000_000_000n);
  });

  it('runs in a larger one if that is there', () => {
    const names = ['shell', 'code_interpreter_16g', 'shell_64g', 'web_search', 'web_search_4g'];
    expect(names.map((name) => inContainerOf(name, 16))).toEqual([
      'shell_16g',
      'code_interpreter_16g',
      'shell_64g',
      'web_search',
      'web_search_4g',
    ]);
    expect(names.map((name) => inContainerOf(name, 0))).toEqual(names);
    expect(inContainerOf('shell', 128)).toBe('shell_64g');
    expect([largestContainerGb(names), largestContainerGb(['shell', 'web_search_4g'])]).toEqual([64, 0]);
  });

  it('does not set the price of a tool that no one knows', () => {
    const sized = price({ shell_64g: 1_920_000_000n, web_search: 10_000_000n });
    expect(costOfUse('divination', sized).costNanoUsd).toBe(35_000_000n);
  });
});
