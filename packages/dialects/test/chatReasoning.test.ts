import { describe, expect, it } from 'vitest';
import type { TargetFormat } from '../src/format.ts';
import type { Quirks } from '../src/quirks/quirks.ts';
import { translateDocument } from '../src/translateAnswer.ts';
import { answerOptions, translatedStream } from './answers.ts';
import { answerBySdk } from './callers.ts';
import { bodyOf, targetOf, translate } from './translating.ts';

/** Any JSON. */
type Wire = ReturnType<typeof JSON.parse>;

const thinking = (text: string, signature: string) => ({ type: 'thinking', thinking: text, signature });
const call = (id: string) => ({ type: 'tool_use', id, name: 'weigh', input: { truck: 1 } });
const said = (text: string) => ({ type: 'text', text });
const redacted = { type: 'redacted_thinking', data: 'aGlkZGVu' };

/** What Claude answers while it thinks and calls a tool. */
const CLAUDE: Readonly<Record<string, readonly Wire[]>> = {
  'a call': [thinking('Axles.', 'czE='), call('c1')],
  'a text and a call': [thinking('Axles.', 'czE='), said('I weigh it.'), call('c1')],
  'hidden reasoning and two calls': [redacted, thinking('Axles.', 'czE='), call('c1'), call('c2')],
  'reasoning before each of them': [
    thinking('Axles.', 'czE='),
    said('I weigh it.'),
    thinking('Twice.', 'czI='),
    call('c1'),
  ],
};

const thought = { text: 'Axles.', thought: true };
const sign = (part: object, thoughtSignature: string) => ({ ...part, thoughtSignature });
const asked = { functionCall: { id: 'c1', name: 'weigh', args: { truck: 1 } } };
const more = { functionCall: { id: 'c2', name: 'weigh', args: { truck: 1 } } };

/** The same of Gemini, which has a signature on a part. */
const GEMINI: Readonly<Record<string, readonly Wire[]>> = {
  'a call': [thought, sign(asked, 'czE=')],
  'a text and a call': [thought, { text: 'I weigh it.' }, sign(asked, 'czE=')],
  'a signed text and a call': [sign({ text: 'I weigh it.' }, 'czE='), sign(asked, 'czI=')],
  'two calls, of which the first is signed': [sign(asked, 'czE='), more],
};

const VENDORS = [
  ...Object.entries(CLAUDE).map(([name, parts]) => ({ format: 'messages' as const, name, parts })),
  ...Object.entries(GEMINI).map(([name, parts]) => ({ format: 'gemini' as const, name, parts })),
];

function documentOf(format: 'messages' | 'gemini', parts: readonly Wire[]): Wire {
  if (format === 'messages') return { type: 'message', id: 'm', content: parts, stop_reason: 'tool_use' };
  return { candidates: [{ content: { role: 'model', parts }, finishReason: 'STOP' }] };
}

/** Claude's stream of these blocks. */
function streamOf(format: 'messages' | 'gemini', parts: readonly Wire[]): string {
  const frame = (data: object) => `data: ${JSON.stringify(data)}\n\n`;
  if (format === 'gemini') {
    const chunks = parts.map((part) => ({ candidates: [{ content: { parts: [part] } }] }));
    return [...chunks, { candidates: [{ finishReason: 'STOP' }] }].map(frame).join('');
  }
  const events = parts.flatMap((block, index) => {
    const delta = (one: object) => ({ type: 'content_block_delta', index, delta: one });
    const start = { thinking: thinking('', ''), text: said(''), tool_use: { ...block, input: {} } };
    return [
      { type: 'content_block_start', index, content_block: start[block.type as 'text'] ?? block },
      ...(block.type === 'thinking'
        ? [
            delta({ type: 'thinking_delta', thinking: block.thinking }),
            delta({ type: 'signature_delta', signature: block.signature }),
          ]
        : []),
      ...(block.type === 'text' ? [delta({ type: 'text_delta', text: block.text })] : []),
      ...(block.type === 'tool_use'
        ? [delta({ type: 'input_json_delta', partial_json: JSON.stringify(block.input) })]
        : []),
      { type: 'content_block_stop', index },
    ];
  });
  const start = { type: 'message_start', message: { id: 'm' } };
  const end = { type: 'message_delta', delta: { stop_reason: 'tool_use' } };
  return [start, ...events, end, { type: 'message_stop' }].map(frame).join('');
}

/** What the vendor gets of an answer in the next turn. */
function returned(format: 'messages' | 'gemini', message: Wire, others: object = {}): Wire {
  const results = message.tool_calls.map(({ id }: Wire) => ({
    role: 'tool',
    tool_call_id: id,
    content: '7',
  }));
  const messages = [{ role: 'user', content: 'How heavy?' }, message, ...results];
  const sent = JSON.parse(bodyOf(translate('chat', { ...others, messages }, targetOf(format))));
  return format === 'messages' ? sent.messages[1].content : sent.contents[1].parts;
}

/** As the next request has it: calls without ids, and no thoughts but their signatures. */
function asSent(parts: readonly Wire[]): readonly Wire[] {
  return parts.flatMap((part) => {
    if (part.thought) return [];
    const { functionCall } = part;
    return functionCall
      ? [{ ...part, functionCall: { name: functionCall.name, args: functionCall.args } }]
      : part;
  });
}

describe('chat completions that repeat an answer byte for byte', () => {
  it.each(VENDORS)('give $format its reasoning back, in its order: $name', async ({ format, parts }) => {
    const options = answerOptions(format, 'chat');
    const whole = JSON.parse(translateDocument(JSON.stringify(documentOf(format, parts)), options).body);
    const streamed: Wire = await answerBySdk('chat', translatedStream(streamOf(format, parts), options));
    for (const answer of [whole, streamed]) {
      const { message } = answer.choices[0];
      expect(returned(format, message)).toEqual(asSent(parts));
      // A client that keeps the calls alone, and one that keeps the details alone.
      const { reasoning_details, reasoning_content: _, ...calls } = message;
      expect(reasoning_details.length).toBeGreaterThan(0);
      const signatures = (sent: unknown) =>
        JSON.stringify(sent)
          .match(/(cz[EI]=|aGlkZGVu)/g)
          ?.sort();
      expect(signatures(returned(format, calls))).toEqual(signatures(parts));
      const bare = message.tool_calls.map(({ extra_content, ...one }: Wire) => one);
      expect(returned(format, { ...message, tool_calls: bare })).toEqual(asSent(parts));
    }
  });

  it('give Claude no reasoning that is not signed, and do not ask it to think on without', () => {
    const message = {
      role: 'assistant',
      content: '',
      reasoning_content: 'Axles.',
      tool_calls: [chatCall('c1')],
    };
    const messages = [
      { role: 'user', content: 'How heavy?' },
      message,
      { role: 'tool', tool_call_id: 'c1', content: '7' },
    ];
    const translation = translate('chat', { messages, reasoning_effort: 'low' }, targetOf('messages'));
    const { messages: sent, thinking: asked } = JSON.parse(bodyOf(translation));
    expect([sent[1].content, asked]).toEqual([[call('c1')], { type: 'disabled' }]);
    expect(translation.losses.map(({ path, verdict }) => `${path} ${verdict}`)).toEqual(
      expect.arrayContaining(['messages.1.reasoning_content dropped', 'reasoning_effort changed']),
    );
  });

  it('give no one reasoning that another vendor signed', () => {
    const [message] = [documentOf('messages', CLAUDE['a call'] ?? [])];
    const whole = JSON.parse(
      translateDocument(JSON.stringify(message), answerOptions('messages', 'chat')).body,
    );
    expect(JSON.stringify(returned('gemini', whole.choices[0].message))).not.toContain('czE=');
  });
});

function chatCall(id: string) {
  return { id, type: 'function', function: { name: 'weigh', arguments: '{"truck":1}' } };
}

describe('how much to reason', () => {
  const body = { messages: [{ role: 'user', content: 'Think.' }], max_completion_tokens: 9_000 };
  const sentTo = (format: TargetFormat, settings: object, quirks: Partial<Quirks> = {}) => {
    const sent = JSON.parse(bodyOf(translate('chat', { ...body, ...settings }, targetOf(format, quirks))));
    return format === 'messages' ? sent.thinking : sent.generationConfig.thinkingConfig;
  };

  it.each([
    [{ thinking: { type: 'enabled', budget_tokens: 2_000 } }, { type: 'enabled', budget_tokens: 2_000 }],
    [{ thinking: { type: 'disabled' } }, { type: 'disabled' }],
    [{ reasoning: { max_tokens: 3_000 } }, { type: 'enabled', budget_tokens: 3_000 }],
    [{ reasoning: { enabled: false } }, { type: 'disabled' }],
    [
      { reasoning: { effort: 'low', exclude: true } },
      { type: 'enabled', budget_tokens: 4_096, display: 'omitted' },
    ],
    [
      { reasoning: { effort: 'high' }, reasoning_effort: 'low' },
      { type: 'enabled', budget_tokens: 4_096 },
    ],
    [
      { extra_body: { google: { thinking_config: { thinking_budget: 5_000 } } } },
      { type: 'enabled', budget_tokens: 5_000, display: 'omitted' },
    ],
  ])('%j is %j to Claude', (settings, expected) => {
    const shown = expected.type === 'enabled' ? { display: 'summarized' } : {};
    expect(sentTo('messages', settings)).toEqual({ ...shown, ...expected });
  });

  it.each([
    [{ reasoning_effort: 'low' }, { thinkingLevel: 'LOW', includeThoughts: true }],
    [{ extra_body: { google: { thinking_config: { thinking_level: 'high' } } } }, { thinkingLevel: 'HIGH' }],
    [
      { extra_body: { google: { thinking_config: { thinking_level: 'low', include_thoughts: true } } } },
      { thinkingLevel: 'LOW', includeThoughts: true },
    ],
  ])('%j is %j to Gemini', (settings, expected) => {
    expect(sentTo('gemini', settings, { efforts: ['low', 'high'], budget: undefined })).toEqual(expected);
  });

  it('is refused where what is meant is not known', () => {
    const unknown = {
      extra_body: { google: { thinking_config: { thinking_level: 'huge' }, cached_content: 'c/1' } },
    };
    const { kind, losses } = translate('chat', { ...body, ...unknown }, targetOf('gemini'));
    expect([kind, losses.map(({ path }) => path)]).toEqual([
      'refused',
      ['extra_body.google.cached_content', 'extra_body.google.thinking_config.thinking_level'],
    ]);
  });
});
