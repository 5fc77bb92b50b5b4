import { describe, expect, it } from 'vitest';
import { answerOptions, foldedAnswer, translatedStream, vendorStream } from './answers.ts';
import { answerBySdk } from './callers.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

describe('what was signed after a text', () => {
  const SIGNED = { reasoning: ['Hm.'], opaque: 'c2ln', text: ['40 ', 'tonnes'], calls: [] };
  const CALLED = { ...SIGNED, calls: [{ id: 'call_1', name: 'weigh', input: ['{}'] }] };
  const typesOf = (answer: unknown) =>
    (answer as { content: { type: string }[] }).content.map(({ type }) => type);

  it.each([
    ['is no last block, which agents take for what was said', SIGNED, ['thinking', 'text']],
    ['comes before the call that follows', CALLED, ['thinking', 'text', 'thinking', 'tool_use']],
  ])('%s', async (_, answer, types) => {
    const stream = vendorStream('gemini', answer);
    const options = answerOptions('gemini', 'messages');
    expect(typesOf(await answerBySdk('messages', translatedStream(stream, options)))).toEqual(types);
    expect(typesOf(JSON.parse(foldedAnswer(stream, options).body))).toEqual(types);
  });
});

describe('a result that comes twice', () => {
  const request = (...outputs: string[]) => ({
    contents: [
      { role: 'user', parts: [{ text: 'x' }] },
      { role: 'model', parts: [{ functionCall: { id: 'call_1', name: 'weigh', args: {} } }] },
      {
        role: 'user',
        parts: outputs.map((output) => ({
          functionResponse: { id: 'call_1', name: 'weigh', response: { output } },
        })),
      },
      { role: 'model', parts: [{ text: '40' }] },
      { role: 'user', parts: [{ text: 'y' }] },
    ],
  });

  it.each(['messages', 'responses', 'chat'] as const)('counts once, if it is the same: %s', (format) => {
    const once = translate('gemini', request('40 tonnes'), targetOf(format));
    const twice = translate('gemini', request('40 tonnes', '40 tonnes'), targetOf(format));
    expect(bodyOf(twice)).toBe(bodyOf(once));
    expect(twice.losses).toContainEqual(
      expect.objectContaining({ path: 'contents.2.parts.1', verdict: 'dropped' }),
    );
  });

  it('is refused if it is another one', () => {
    const { kind, losses } = translate('gemini', request('40 tonnes', '4 tonnes'), targetOf('messages'));
    expect([kind, losses.map(({ path }) => path)]).toEqual(['refused', ['contents.2.parts.1']]);
  });
});

it('the call of another model has what stands for a signature at Gemini, the first of calls at once only', () => {
  const call = (id: string) => ({ type: 'tool_use', id, name: 'weigh', input: {} });
  const result = (tool_use_id: string) => ({ type: 'tool_result', tool_use_id, content: '40' });
  const messages = [
    { role: 'user', content: 'x' },
    { role: 'assistant', content: [call('1'), call('2')] },
    { role: 'user', content: [result('1'), result('2')] },
  ];
  const body = bodyOf(translate('messages', { max_tokens: 9, messages }, targetOf('gemini')));
  const [, model] = JSON.parse(body).contents;
  const signatures = model.parts.map((part: { thoughtSignature?: string }) => part.thoughtSignature);
  expect(signatures).toEqual(['skip_thought_signature_validator', undefined]);
});

it.each(['messages', 'chat', 'gemini'] as const)(
  'tools that an item of the input brings are tools: %s',
  (format) => {
    const parameters = '{"type":"object","properties":{"n":{"type":"number","maximum":1.0}}}';
    const item = `{"type":"additional_tools","role":"developer","tools":[
    {"type":"custom","name":"exec"},
    {"type":"namespace","name":"web","tools":[{"type":"function","name":"run","parameters":${parameters}}]}]}`;
    const said = '{"role":"user","content":"x"}';
    const names = (body: string) => [...body.matchAll(/"name":"(\w+)"/g)].map(([, name]) => name);
    const first = translate('responses', `{"input":[${item},${said}]}`, targetOf(format));
    expect(names(bodyOf(first))).toEqual(['exec', 'web__run']);
    // The schema is the caller's, byte for byte, where the vendor takes any.
    if (format !== 'gemini') expect(bodyOf(first)).toContain(parameters);
    expect(first.losses.map(({ path }) => path)).not.toContain('input.0.tools');
    const late = translate('responses', `{"input":[${said},${item}]}`, targetOf(format));
    expect(late.losses).toContainEqual(
      expect.objectContaining({ path: 'input.1.tools', verdict: 'changed' }),
    );
  },
);
