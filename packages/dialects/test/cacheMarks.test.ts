import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Format, TargetFormat } from '../src/format.ts';
import { parseRequest, translateRequest } from '../src/translateRequest.ts';
import { SAMPLES } from './samples.ts';
import { bodyOf, SCOPE, targetOf, translate } from './translating.ts';

const EPHEMERAL = { type: 'ephemeral' };
const MAX_MARKS = 4;

/** A request as it is sent to a target that is asked to cache. */
function cached(from: Format, body: object, to: TargetFormat, cacheMarks = true) {
  const parsed = parseRequest(from, Buffer.from(JSON.stringify(body)));
  if (!parsed) throw new Error('the body is no JSON');
  const target = targetOf(to, { cacheMarks });
  return translateRequest(parsed, { target, scope: SCOPE, policy: 'lenient', cachesPrompt: true });
}

/** Any JSON. */
type Wire = ReturnType<typeof JSON.parse>;

const marksIn = (sent: unknown) => JSON.stringify(sent).split('"cache_control":{').length - 1;
const tool = { type: 'function', function: { name: 'weigh', parameters: { type: 'object' } } };
const turn = (role: string, content: unknown) => ({ role, content });

describe('a prompt that is to be cached', () => {
  it('has marks on its system prompt, its last tool and the last turn of the user', () => {
    const messages = [
      turn('system', 'The rules.'),
      turn('developer', 'More rules.'),
      turn('user', 'First.'),
      turn('assistant', 'Yes.'),
      turn('user', [
        { type: 'text', text: 'Second.' },
        { type: 'text', text: '' },
      ]),
    ];
    const sent = JSON.parse(bodyOf(cached('chat', { messages, tools: [tool, tool] }, 'messages')));
    expect(sent.system.map((one: Wire) => one.cache_control)).toEqual([undefined, EPHEMERAL]);
    expect(sent.tools.map((one: Wire) => one.cache_control)).toEqual([undefined, EPHEMERAL]);
    expect(sent.messages.map(({ content }: Wire) => content.at(-1).cache_control)).toEqual([
      undefined,
      undefined,
      EPHEMERAL,
    ]);
  });

  it('has the mark of a loop of tools on its last results', () => {
    const calls = [{ id: 'c1', type: 'function', function: { name: 'weigh', arguments: '{}' } }];
    const messages = [
      turn('user', 'Weigh.'),
      { role: 'assistant', content: null, tool_calls: calls },
      { role: 'tool', tool_call_id: 'c1', content: '7' },
    ];
    const sent = JSON.parse(bodyOf(cached('chat', { messages, tools: [tool] }, 'messages')));
    expect(sent.messages.at(-1).content).toMatchObject([{ type: 'tool_result', cache_control: EPHEMERAL }]);
    expect(marksIn(sent)).toBe(2);
  });

  it('has those of the request alone, if it has any', () => {
    const text = { type: 'text', text: 'Mine.', cache_control: { type: 'ephemeral', ttl: '1h' } };
    const bodies = [
      { messages: [turn('system', 'Rules.'), turn('user', [text])] },
      {
        messages: [turn('system', 'Rules.'), turn('user', 'x')],
        tools: [{ ...tool, cache_control: EPHEMERAL }],
      },
      { messages: [{ ...turn('system', 'Rules.'), cache_control: EPHEMERAL }, turn('user', 'x')] },
    ];
    for (const body of bodies) expect(marksIn(JSON.parse(bodyOf(cached('chat', body, 'messages'))))).toBe(1);
  });

  it('has no more marks than the vendor takes, and loses nothing for them, from any dialect', () => {
    for (const from of ['chat', 'responses', 'gemini'] as const) {
      const body: object = SAMPLES[from];
      const [marked, plain] = [cached(from, body, 'messages'), translate(from, body, targetOf('messages'))];
      const marks = marksIn(JSON.parse(bodyOf(marked)));
      expect(marks).toBeGreaterThan(1);
      expect(marks).toBeLessThanOrEqual(MAX_MARKS);
      expect(marked.losses).toEqual(plain.losses);
    }
  });

  it('is the same without its marks', () => {
    const role = fc.constantFrom('system', 'user', 'assistant');
    const messages = fc.array(fc.record({ role, content: fc.string({ maxLength: 3 }) }), { maxLength: 6 });
    fc.assert(
      fc.property(messages, (list) => {
        const body = { messages: [...list, turn('user', 'Last.')], tools: [tool] };
        const sent = JSON.parse(bodyOf(cached('chat', body, 'messages')), (name, value) =>
          name === 'cache_control' ? undefined : value,
        );
        expect(sent).toEqual(JSON.parse(bodyOf(cached('chat', body, 'messages', false))));
      }),
    );
  });

  it.each(['gemini', 'responses'] as const)('has none for %s, which caches by itself', (to) => {
    const body = { messages: [turn('user', 'x')] };
    const { losses } = cached('chat', body, to, false);
    expect(losses.filter(({ path }) => path.includes('cache'))).toEqual([]);
  });

  it('has cache points by Converse, where the model takes them', () => {
    const body = { messages: [turn('system', 'Rules.'), turn('user', 'x')], tools: [tool] };
    const translation = cached('chat', body, 'converse');
    expect(bodyOf(translation).split('cachePoint').length - 1).toBe(2);
    expect(translation.losses).toEqual([]);
  });
});

describe('a mark of chat completions', () => {
  it.each([
    ['a tool', { tools: [{ ...tool, cache_control: EPHEMERAL }] }],
    [
      'the function in a tool',
      { tools: [{ ...tool, function: { ...tool.function, cache_control: EPHEMERAL } }] },
    ],
    ['a message', { messages: [{ ...turn('user', 'x'), cache_control: EPHEMERAL }] }],
    ['a text', { messages: [turn('user', [{ type: 'text', text: 'x', cache_control: EPHEMERAL }])] }],
  ])('on %s reaches Claude', (_what, body) => {
    const parsed = parseRequest(
      'chat',
      Buffer.from(JSON.stringify({ messages: [turn('user', 'x')], ...body })),
    );
    if (!parsed) throw new Error('the body is no JSON');
    const translation = translateRequest(parsed, {
      target: targetOf('messages'),
      scope: SCOPE,
      policy: 'lenient',
    });
    expect(marksIn(JSON.parse(bodyOf(translation)))).toBe(1);
    expect(translation.losses.filter(({ path }) => path.includes('cache'))).toEqual([]);
  });
});
