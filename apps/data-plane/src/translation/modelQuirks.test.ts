import { DEFAULT_QUIRKS, FORMATS, type Format, type Quirks } from '@weighbridge/dialects';
import type { RoutableModel } from '@weighbridge/state';
import { describe, expect, it } from 'vitest';
import { quirksOf } from './modelQuirks.ts';

function quirks(format: Format, capabilities: readonly string[], provider = 'anyone'): Quirks {
  return quirksOf({ provider, capabilities, maxOutputTokens: undefined } as unknown as RoutableModel, format);
}

const reasoning = ({ efforts, budget, adaptive, canTurnOffReasoning }: Quirks) => {
  return { efforts, budget, adaptive, canTurnOffReasoning };
};

describe('what a model takes of a request', () => {
  it.each(FORMATS)('is what its vendor’s usually take, if nothing is known of it: %s', (format) => {
    const usual = DEFAULT_QUIRKS[format];
    expect(quirks(format, [], 'openai')).toEqual({ ...usual, defaultTokens: usual.defaultTokens });
    const { efforts, budget, sampling } = quirks(format, ['reasoning'], 'openai');
    expect({ efforts, budget, sampling }).toEqual({
      efforts: usual.efforts,
      budget: usual.budget,
      sampling: usual.sampling,
    });
  });

  it('is the efforts and the budget that the catalog says', () => {
    const stated = ['reasoning', 'effort_max', 'effort_low', 'effort_none', 'reasoning_budget_128_32768'];
    expect(reasoning(quirks('gemini', stated))).toEqual({
      efforts: ['none', 'low', 'max'],
      budget: { min: 128, max: 32_768 },
      adaptive: true,
      canTurnOffReasoning: false,
    });
    // An effort goes with reasoning that the model decides on, which not every model of messages does.
    expect(reasoning(quirks('messages', stated))).toMatchObject({ efforts: [], adaptive: false });
    expect(reasoning(quirks('messages', [...stated, 'adaptive_reasoning']))).toMatchObject({
      efforts: ['none', 'low', 'max'],
      budget: { min: 128, max: 32_768 },
      adaptive: true,
    });
    expect(reasoning(quirks('messages', ['reasoning', 'effort_high']))).toEqual({
      efforts: ['high'],
      budget: undefined,
      adaptive: true,
      canTurnOffReasoning: true,
    });
  });

  it('is an effort in formats that have no other way', () => {
    const budget = ['reasoning', 'reasoning_budget_0_24576'];
    expect(quirks('chat', budget)).toMatchObject({ efforts: DEFAULT_QUIRKS.chat.efforts, budget: undefined });
    expect(quirks('responses', ['reasoning', 'effort_xhigh'])).toMatchObject({ efforts: ['xhigh'] });
  });

  it('is reasoning that ends only where it can', () => {
    expect(quirks('messages', ['reasoning', 'no_reasoning_off']).canTurnOffReasoning).toBe(false);
    expect(quirks('messages', ['reasoning', 'effort_low', 'no_reasoning_off']).canTurnOffReasoning).toBe(
      false,
    );
    const low = ['reasoning', 'reasoning_budget_512_1024'];
    expect(quirks('gemini', low).canTurnOffReasoning).toBe(false);
    expect(quirks('gemini', [...low, 'reasoning_off']).canTurnOffReasoning).toBe(true);
    // There, it is an effort that turns it off.
    expect(quirks('chat', ['reasoning', 'effort_low', 'reasoning_off']).canTurnOffReasoning).toBe(false);
    expect(quirks('gemini', ['reasoning', 'reasoning_budget_0_1024']).canTurnOffReasoning).toBe(true);
    expect(quirks('gemini', ['reasoning', 'effort_low', 'effort_high']).canTurnOffReasoning).toBe(false);
  });

  it('is no reasoning of a model that does not reason, whatever else is said', () => {
    const silent = { efforts: [], budget: undefined, adaptive: false };
    expect(quirks('messages', ['tools', 'effort_low', 'reasoning_budget_1_2'])).toMatchObject(silent);
  });

  it.each(FORMATS)('is sampling, structured output and stop sequences by the catalog: %s', (format) => {
    const takes = ['tools', 'sampling', 'structured_output', 'stop_sequences_3'];
    const maxStops = format === 'responses' ? 0 : 3;
    expect(quirks(format, takes)).toMatchObject({ sampling: true, structuredOutput: true, maxStops });
    const refuses = ['tools', 'reasoning', 'no_sampling', 'no_structured_output', 'stop_sequences_0'];
    expect(quirks(format, refuses)).toMatchObject({ sampling: false, structuredOutput: false, maxStops: 0 });
  });

  it.each([
    'effort_',
    'effort_unheard',
    'reasoning_budget_9_1',
    'reasoning_budget_1',
    'reasoning_budget_1_99999999999',
    'stop_sequences_',
    'stop_sequences_99999',
    'no_reasoning',
  ])('is as usual by a name that says nothing: %s', (name) => {
    for (const format of FORMATS) {
      expect(quirks(format, ['reasoning', name])).toEqual(quirks(format, ['reasoning']));
    }
  });
});
