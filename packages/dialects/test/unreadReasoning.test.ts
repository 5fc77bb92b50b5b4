import { describe, expect, it } from 'vitest';
import type { Format } from '../src/format.ts';
import { outputEvents } from '../src/responses/outputEvents.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import { answerOptions, translatedStream } from './answers.ts';
import { answerBySdk } from './callers.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

const reasoningItem = (data: string) => ({
  type: 'reasoning',
  id: `rs_${data}`,
  summary: [],
  encrypted_content: data,
});
const TEXT = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  content: [{ type: 'output_text', text: 'Forty tonnes.', annotations: [] }],
};
const CALL = { type: 'function_call', id: 'fc_1', call_id: 'call_1', name: 'weigh', arguments: '{"kg":7}' };

/** Any JSON. */
type Wire = ReturnType<typeof JSON.parse>;

/** Both ways in which OpenAI sends this output. */
async function answersOf(output: readonly object[], to: Format): Promise<Wire[]> {
  const usage = { input_tokens: 9, output_tokens: 5 };
  const response = { id: 'resp_1', created_at: 1, status: 'completed', output, usage };
  const events = [
    { type: 'response.created', response: { ...response, output: [] } },
    ...outputEvents(output),
    { type: 'response.completed', response },
  ];
  const stream = events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('');
  const options = answerOptions('responses', to);
  return [
    JSON.parse(translateDocument(JSON.stringify(response), options).body),
    await answerBySdk(to, translatedStream(stream, options)),
  ];
}

/** The input of the next turn, as OpenAI gets it. */
function sentBack(content: Wire[]): Wire[] {
  const result = { type: 'tool_result', tool_use_id: content.at(-1).id, content: '7' };
  const messages = [
    { role: 'user', content: 'How heavy?' },
    { role: 'assistant', content },
    { role: 'user', content: [result] },
  ];
  const body = bodyOf(translate('messages', { messages, max_tokens: 9 }, targetOf('responses')));
  return JSON.parse(body).input.slice(1, -1);
}

describe('reasoning of OpenAI without text, which only OpenAI reads', () => {
  it('is not in an answer that is only a text', async () => {
    const output = [reasoningItem('a'), TEXT];
    for (const { content } of await answersOf(output, 'messages'))
      expect(content).toMatchObject([{ type: 'text', text: 'Forty tonnes.' }]);
    for (const { choices } of await answersOf(output, 'chat'))
      expect(choices[0].message).not.toHaveProperty('reasoning_details');
  });

  it.each([
    { output: [reasoningItem('a'), CALL], types: ['thinking', 'tool_use'], back: ['a', 'call'] },
    {
      output: [reasoningItem('a'), TEXT, CALL],
      types: ['text', 'thinking', 'tool_use'],
      back: ['a', 'text', 'call'],
    },
    {
      output: [reasoningItem('a'), TEXT, reasoningItem('b'), CALL],
      types: ['text', 'thinking', 'thinking', 'tool_use'],
      back: ['a', 'b', 'text', 'call'],
    },
  ])(
    'comes after the text and before the call that needs it, and returns to OpenAI before both: $types',
    async (one) => {
      for (const { content } of await answersOf(one.output, 'messages')) {
        expect(content.map(({ type }: Wire) => type)).toEqual(one.types);
        const back = sentBack(content).map((item: Wire) =>
          item.type === 'reasoning'
            ? item.encrypted_content
            : item.type === 'function_call'
              ? 'call'
              : 'text',
        );
        expect(back).toEqual(one.back);
      }
    },
  );

  it('comes first as before if it has a text', async () => {
    const summary = [{ type: 'summary_text', text: 'A truck.' }];
    const output = [{ ...reasoningItem('a'), summary }, TEXT];
    for (const { content } of await answersOf(output, 'messages'))
      expect(content).toMatchObject([{ type: 'thinking', thinking: 'A truck.' }, { type: 'text' }]);
  });
});
