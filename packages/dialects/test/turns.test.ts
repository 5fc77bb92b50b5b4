import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FORMATS, type Format } from '../src/format.ts';
import { type KeptShape, parseBody } from '../src/json/parseBody.ts';
import { parseRequest, type Translation, translateRequest } from '../src/translateRequest.ts';
import type { Target } from '../src/writeContext.ts';
import { ANSWERS, type Answer, answerOptions, foldedAnswer, vendorStream } from './answers.ts';
import { bodyOf, SCOPE, targetOf } from './translating.ts';

const PAIRS = FORMATS.flatMap((to) => FORMATS.filter((from) => from !== to).map((from) => ({ from, to })));

/** Where an answer has what the next request repeats. */
const SAID: Readonly<Record<Format, KeptShape>> = {
  messages: { members: { content: 'kept' } },
  responses: { members: { output: 'kept' } },
  chat: { members: { choices: { items: { members: { message: 'kept' } } } } },
  gemini: { members: { candidates: { items: { members: { content: 'kept' } } } } },
};

/** The next request of a caller that repeats the answer byte by byte, and answers each call. */
function nextRequest(format: Format, answer: string, { calls }: Answer): string {
  const said = parseBody(Buffer.from(answer), SAID[format])?.kept[0] ?? '';
  const results = (one: (id: string, name: string) => object) =>
    calls.length > 0 ? calls.map(({ id, name }) => JSON.stringify(one(id, name))) : undefined;
  switch (format) {
    case 'messages': {
      const content = results((tool_use_id) => ({ type: 'tool_result', tool_use_id, content: 'ok' }));
      const next = content ? `[${content.join(',')}]` : '"Go on."';
      const turns = `{"role":"user","content":"x"},{"role":"assistant","content":${said}},{"role":"user","content":${next}}`;
      return `{"model":"m","max_tokens":9000,"messages":[${turns}]}`;
    }
    case 'responses': {
      const outputs = results((call_id) => ({ type: 'function_call_output', call_id, output: 'ok' })) ?? [];
      const items = [
        '{"role":"user","content":"x"}',
        said.slice(1, -1),
        ...outputs,
        '{"role":"user","content":"y"}',
      ];
      return `{"model":"m","input":[${items.filter((item) => item !== '').join(',')}]}`;
    }
    case 'chat': {
      const tools = results((tool_call_id) => ({ role: 'tool', tool_call_id, content: 'ok' })) ?? [];
      const turns = ['{"role":"user","content":"x"}', said, ...tools, '{"role":"user","content":"y"}'];
      return `{"model":"m","messages":[${turns.join(',')}]}`;
    }
    case 'gemini': {
      const parts = results((id, name) => ({ functionResponse: { id, name, response: { output: 'ok' } } }));
      const next = `{"role":"user","parts":[${parts?.join(',') ?? '{"text":"y"}'}]}`;
      return `{"contents":[{"role":"user","parts":[{"text":"x"}]},${said},${next}]}`;
    }
  }
}

function secondTurn(
  from: Format,
  to: Format,
  answer: Answer,
  target: Target,
  principal = 'ada',
): Translation {
  const first = foldedAnswer(vendorStream(from, answer), answerOptions(from, to));
  const parsed = parseRequest(to, Buffer.from(nextRequest(to, first.body, answer)));
  if (!parsed) throw new Error('the body is no JSON');
  return translateRequest(parsed, { target, scope: { ...SCOPE, principal }, policy: 'lenient' });
}

/** A vendor's call, as its request has it. */
function inputsIn(format: Format, body: string): string[] {
  const input: KeptShape = { items: { members: { input: 'kept' } } };
  const args: KeptShape = { items: { members: { functionCall: { members: { args: 'kept' } } } } };
  if (format === 'messages')
    return keptIn(body, { members: { messages: { items: { members: { content: input } } } } });
  if (format === 'gemini')
    return keptIn(body, { members: { contents: { items: { members: { parts: args } } } } });
  const parsed = JSON.parse(body);
  if (format === 'responses')
    return parsed.input.flatMap((item: { arguments?: string }) => item.arguments ?? []);
  return parsed.messages.flatMap((message: { tool_calls?: { function: { arguments: string } }[] }) =>
    (message.tool_calls ?? []).map((call) => call.function.arguments),
  );
}

function keptIn(body: string, shape: KeptShape): string[] {
  return [...(parseBody(Buffer.from(body), shape)?.kept ?? [])];
}

const SIGNED = ANSWERS.filter(({ reasoning, opaque }) => reasoning.length > 0 && opaque !== '').map(
  (answer) => {
    // A value that nothing else in a body looks like.
    return {
      ...answer,
      text: answer.text.filter((one) => !one.includes('wb1.')),
      opaque: 'b3BhcXVlLXZhbHVl',
    };
  },
);
const CARRIES: readonly Format[] = FORMATS.filter((format) => format !== 'chat');

describe('a second turn', () => {
  it.each(PAIRS)('returns arguments as the vendor wrote them: $from for a caller of $to', ({ from, to }) => {
    fc.assert(
      fc.property(ANSWERS, (answer) => {
        const body = bodyOf(secondTurn(from, to, answer, targetOf(from)));
        expect(inputsIn(from, body)).toEqual(answer.calls.map(({ input }) => input.join('')));
      }),
      { numRuns: 25 },
    );
  });

  it.each(PAIRS.filter(({ from }) => CARRIES.includes(from)))(
    'returns what only the vendor understands to its account: $from for a caller of $to',
    ({ from, to }) => {
      fc.assert(
        fc.property(SIGNED, (answer) => {
          // Chat completions have a place for it at calls only; messages have none after the text, where Gemini has it.
          const isNowhere =
            to === 'chat' || (to === 'messages' && from === 'gemini' && answer.text.length > 0);
          fc.pre(!isNowhere || answer.calls.length > 0);
          const translation = secondTurn(from, to, answer, targetOf(from));
          expect(bodyOf(translation).split(answer.opaque).length - 1).toBe(1);
          if (from !== 'gemini')
            expect(bodyOf(translation)).toContain(JSON.stringify(answer.reasoning.join('')));
        }),
        { numRuns: 25 },
      );
    },
  );

  it.each(PAIRS.filter(({ from }) => CARRIES.includes(from)))(
    'returns it to no one else: $from for a caller of $to',
    ({ from, to }) => {
      fc.assert(
        fc.property(SIGNED, (answer) => {
          const others = FORMATS.filter((format) => format !== from && format !== to).map((format) =>
            targetOf(format),
          );
          for (const target of [...others, { ...targetOf(from), account: 'con_2' }]) {
            const translation = secondTurn(from, to, answer, target);
            expect(bodyOf(translation)).not.toContain(answer.opaque);
            expect(bodyOf(translation)).not.toContain('wb1.');
          }
          const other = secondTurn(from, to, answer, targetOf(from), 'eve');
          expect(bodyOf(other)).not.toContain(answer.opaque);
        }),
        { numRuns: 25 },
      );
    },
  );
});
