import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FORMATS } from '../src/format.ts';
import { type AnswerPlan, parseRequest, translateRequest } from '../src/translateRequest.ts';
import { ANSWERS, answerOptions, foldedAnswer, translatedStream, vendorStream } from './answers.ts';
import { SCOPE, targetOf } from './translating.ts';

const OTHERS = FORMATS.filter((format) => format !== 'responses');

interface Frame {
  readonly type: string;
  readonly sequence_number: number;
  readonly output_index?: number;
  readonly response?: Readonly<Record<string, unknown>>;
}

function framesOf(stream: string): Frame[] {
  return stream
    .split('\n')
    .filter((line) => line.startsWith('data: '))
    .map((line) => JSON.parse(line.slice(6)));
}

describe('a stream of responses', () => {
  it.each(OTHERS)('numbers its events in their order, the end of an item last: from %s', (from) => {
    fc.assert(
      fc.property(ANSWERS, (answer) => {
        const frames = framesOf(
          translatedStream(vendorStream(from, answer), answerOptions(from, 'responses')),
        );
        expect(frames.map(({ sequence_number }) => sequence_number)).toEqual(frames.map((_, at) => at));
        const ended = new Set<number>();
        for (const { type, output_index } of frames) {
          if (output_index === undefined || type === 'response.output_text.annotation.added') continue;
          expect(ended, type).not.toContain(output_index);
          if (type === 'response.output_item.done') ended.add(output_index);
        }
      }),
      { numRuns: 30 },
    );
  });
});

const SCHEMA = '{"type":"object","properties":{"2":{},"1":{"maximum":1e400}}}';
/** As a caller may write it: with lines, and with what parsing would change. */
const SENT = `{
  "model": "m", "input": "Hi", "instructions": "Be brief.\\nIn German.", "max_output_tokens": 900,
  "metadata": {"ticket": "7"}, "parallel_tool_calls": false, "temperature": 0.50, "top_p": 0.9, "truncation": "disabled",
  "reasoning": {"effort": "low", "summary": "auto"}, "tool_choice": "none",
  "text": {"format": {"type": "json_schema", "name": "n", "schema": ${SCHEMA}}, "verbosity": "low"},
  "tools": [{
    "type": "function", "name": "f", "parameters": ${SCHEMA}
  }]
}`;

const DEFAULTS = {
  instructions: null,
  max_output_tokens: null,
  metadata: {},
  parallel_tool_calls: true,
  reasoning: { effort: null, summary: null },
  temperature: null,
  text: { format: { type: 'text' } },
  tool_choice: 'auto',
  tools: [],
  top_p: null,
  truncation: 'disabled',
};

function planOf(body: string, from: AnswerPlan['from']): AnswerPlan {
  const parsed = parseRequest('responses', Buffer.from(body));
  if (!parsed) throw new Error('the body is no JSON');
  const target = targetOf(from, { hosted: [] });
  const translation = translateRequest(parsed, { target, scope: SCOPE, policy: 'lenient' });
  if (translation.kind === 'refused') throw new Error(JSON.stringify(translation.losses));
  return translation.answer;
}

describe('a translated response', () => {
  const answer = { reasoning: [], opaque: '', text: ['Hallo.'], calls: [] };

  it.each(OTHERS)('repeats its request as it was sent, streamed and whole: from %s', (from) => {
    for (const [body, expected] of [
      [SENT, JSON.parse(SENT)],
      ['{"input":"Hi"}', DEFAULTS],
      ['{"input":"Hi","tools":null,"text":null,"metadata":null}', DEFAULTS],
    ] as const) {
      const options = answerOptions(from, 'responses', planOf(body, from));
      const stream = translatedStream(vendorStream(from, answer), options);
      const whole = foldedAnswer(vendorStream(from, answer), options).body;
      const repeated = framesOf(stream).flatMap(({ response }) => (response ? [response] : []));
      expect(repeated).toHaveLength(3);
      for (const response of [...repeated, JSON.parse(whole)]) {
        for (const name of Object.keys(DEFAULTS)) expect(response[name], name).toEqual(expected[name]);
      }
    }
    const options = answerOptions(from, 'responses', planOf(SENT, from));
    expect(translatedStream(vendorStream(from, answer), options)).toContain(SCHEMA);
  });

  it('repeats at most 256 KiB, so that a large request makes no large response', () => {
    const long = 'x'.repeat(200 * 1024);
    const plan = planOf(
      JSON.stringify({ input: 'Hi', instructions: long, metadata: { long }, temperature: 0.5 }),
      'messages',
    );
    const options = answerOptions('messages', 'responses', plan);
    const frames = framesOf(translatedStream(vendorStream('messages', answer), options));
    const responses = frames.flatMap(({ response }) => (response ? [response] : []));
    expect(responses).toHaveLength(3);
    for (const { instructions, metadata, temperature } of responses)
      expect({ instructions, metadata, temperature }).toEqual({
        instructions: long,
        metadata: {},
        temperature: 0.5,
      });
  });
});
