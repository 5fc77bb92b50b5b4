import { describe, expect, it } from 'vitest';
import { usageOfIterations } from './messagesIterations.ts';
import { NO_TOKENS } from './tokenUsage.ts';

const tokens = (inputTokens: number, outputTokens: number) => ({ ...NO_TOKENS, inputTokens, outputTokens });
const entry = (type: string, input: number, output: number, model?: string) => ({
  type,
  input_tokens: input,
  output_tokens: output,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
  cache_creation: null,
  ...(model !== undefined && { model }),
});

describe('usageOfIterations', () => {
  it('adds compactions and advisors, which the top-level usage does not include', () => {
    const iterations = [
      entry('compaction', 1_000, 200),
      entry('message', 10, 5, 'claude-a'),
      entry('advisor_message', 40, 30, 'claude-b'),
      entry('message', 20, 5, 'claude-a'),
    ];
    expect(usageOfIterations(iterations, tokens(30, 10))).toMatchObject({
      fallbackModel: '',
      own: tokens(30, 10),
      others: [
        { model: '', tokens: tokens(1_000, 200) },
        { model: 'claude-b', tokens: tokens(40, 30) },
      ],
    });
  });

  it('counts an unknown kind of iteration too', () => {
    const { others } = usageOfIterations([entry('critic', 7, 8, 'x')], tokens(1, 1)) ?? {};
    expect(others).toMatchObject([{ model: 'x', tokens: tokens(7, 8) }]);
  });

  it('sums the turns of the model where the top-level usage has fewer tokens', () => {
    const iterations = [entry('message', 10, 5), entry('message', 30, 5)];
    expect(usageOfIterations(iterations, tokens(30, 5))?.own).toEqual(tokens(40, 10));
    expect(usageOfIterations(iterations, tokens(50, 15))?.own).toEqual(tokens(50, 15));
  });

  it.each([
    ['does not include', tokens(12, 20)],
    ['includes', tokens(22, 23)],
  ])('names the fallback that answered; the top-level usage %s the model that declined', (_how, top) => {
    const iterations = [entry('message', 10, 3, 'claude-a'), entry('fallback_message', 12, 20, 'claude-b')];
    expect(usageOfIterations(iterations, top)).toMatchObject({
      fallbackModel: 'claude-b',
      own: tokens(12, 20),
      others: [{ model: 'claude-a', tokens: tokens(10, 3) }],
    });
  });

  it('charges nothing for a model that declined before it wrote anything', () => {
    const iterations = [entry('message', 10, 0, 'claude-a'), entry('fallback_message', 12, 20, 'claude-b')];
    expect(usageOfIterations(iterations, tokens(12, 20))?.others).toEqual([]);
  });

  it.each([undefined, null, {}, [], 'x'])('is undefined for %j', (iterations) => {
    expect(usageOfIterations(iterations, tokens(1, 1))).toBeUndefined();
  });

  it('skips entries that are none', () => {
    const iterations = [
      null,
      3,
      { type: 'compaction' },
      entry('compaction', -1, 3),
      entry('compaction', 5, 6),
    ];
    expect(usageOfIterations(iterations, tokens(1, 1))?.others).toMatchObject([{ tokens: tokens(5, 6) }]);
  });
});
