import { describe, expect, it } from 'vitest';
import type { Format } from '../src/format.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import { answerOptions, translatedStream } from './answers.ts';
import { answerBySdk } from './callers.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

const SIGNATURE = 'c2lnbmF0dXJl';
const OTHER_SIGNATURE = 'b3RoZXI=';
const CALL = {
  functionCall: { id: 'c1', name: 'weigh', args: { kg: 7 } },
  thoughtSignature: OTHER_SIGNATURE,
};

/** How Gemini signs a text: in its one part, in its last, and in an empty one after it. */
const SIGNED = {
  'in one part': [{ text: 'About 40 tonnes.', thoughtSignature: SIGNATURE }],
  'in its last part': [{ text: 'About 40 ' }, { text: 'tonnes.', thoughtSignature: SIGNATURE }],
  'in an empty part before it': [{ text: '', thoughtSignature: SIGNATURE }, { text: 'About 40 tonnes.' }],
  'in an empty part after it': [
    { text: 'About 40 ' },
    { text: 'tonnes.' },
    { text: '', thoughtSignature: SIGNATURE },
  ],
};

const chunkOf = (parts: readonly object[], last: object = {}) => ({
  candidates: [{ content: { role: 'model', parts }, ...last }],
  usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 5 },
});
const END = { finishReason: 'STOP' };

/** Any JSON. */
type Wire = ReturnType<typeof JSON.parse>;

/** Both ways in which a vendor sends these parts. */
async function answersOf(parts: readonly object[], to: Format): Promise<Wire[]> {
  const chunks = parts.map((part, at) => chunkOf([part], at === parts.length - 1 ? END : {}));
  const stream = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join('');
  const whole = JSON.stringify(chunkOf(parts, END));
  const options = answerOptions('gemini', to);
  return [
    JSON.parse(translateDocument(whole, options).body),
    await answerBySdk(to, translatedStream(stream, options)),
  ];
}

describe('a text that Gemini signed, to a caller that did not ask it to think', () => {
  for (const [how, parts] of Object.entries(SIGNED)) {
    it(`comes first and whole, signed ${how}`, async () => {
      for (const { content } of await answersOf(parts, 'messages'))
        expect(content).toMatchObject([{ type: 'text', text: 'About 40 tonnes.' }]);
      for (const { output } of await answersOf(parts, 'responses')) {
        expect(output.map(({ type }: { type: string }) => type)).toEqual(['message', 'reasoning']);
        expect(output[0].content[0].text).toBe('About 40 tonnes.');
      }
      for (const { choices } of await answersOf(parts, 'chat'))
        expect(choices[0].message.content).toBe('About 40 tonnes.');
    });

    it(`goes back as it was signed, before a call with a signature of its own: ${how}`, async () => {
      const expected = [
        { text: 'About 40 tonnes.', thoughtSignature: SIGNATURE },
        { functionCall: { name: 'weigh', args: { kg: 7 } }, thoughtSignature: OTHER_SIGNATURE },
      ];
      for (const { content } of await answersOf([...parts, CALL], 'messages')) {
        const messages = [
          { role: 'user', content: 'How heavy?' },
          { role: 'assistant', content },
          { role: 'user', content: [{ type: 'tool_result', tool_use_id: content.at(-1).id, content: '7' }] },
        ];
        const sent = JSON.parse(
          bodyOf(translate('messages', { messages, max_tokens: 9 }, targetOf('gemini'))),
        );
        expect(sent.contents[1].parts).toEqual(expected);
      }
      for (const { output } of await answersOf([...parts, CALL], 'responses')) {
        const result = { type: 'function_call_output', call_id: output.at(-1).call_id, output: '7' };
        const input = [{ role: 'user', content: 'How heavy?' }, ...output, result];
        const sent = JSON.parse(bodyOf(translate('responses', { input }, targetOf('gemini'))));
        expect(sent.contents[1].parts).toEqual(expected);
      }
    });
  }
});
