import { describe, expect, it } from 'vitest';
import { FOREIGN_CITATION } from '../src/envelopeMarks.ts';
import { FORMATS } from '../src/format.ts';
import { encodeSignature } from '../src/gemini/wire.ts';
import { envelopeCuts } from '../src/unseal.ts';
import { sealOpaque } from '../src/wire/seal.ts';
import { SAMPLES } from './samples.ts';
import { SCOPE } from './translating.ts';

const ENVELOPE = sealOpaque(SCOPE, 'con_1', { owner: 'other', kind: 'signature', data: 'x.y', id: '' });

function passed(format: (typeof FORMATS)[number], body: unknown): unknown {
  const bytes = Buffer.from(JSON.stringify(body));
  let left = '';
  let at = 0;
  for (const { start, end } of envelopeCuts(format, bytes)) {
    left += bytes.toString('utf8', at, start);
    at = end;
  }
  return JSON.parse(left + bytes.toString('utf8', at));
}

describe('a body that passes', () => {
  it.each(FORMATS)('is left as it is without an envelope: %s', (format) => {
    const bytes = Buffer.from(JSON.stringify(SAMPLES[format]));
    expect(envelopeCuts(format, bytes)).toEqual([]);
  });

  it('keeps a text that looks like an envelope', () => {
    const body = { messages: [{ role: 'user', content: [{ type: 'text', text: ENVELOPE }] }] };
    expect(passed('messages', body)).toEqual(body);
    const item = { input: [{ role: 'user', content: ENVELOPE }] };
    expect(passed('responses', item)).toEqual(item);
  });

  it('loses thinking that another vendor signed, and a message that has nothing else', () => {
    const foreign = { type: 'thinking', thinking: 'a', signature: ENVELOPE };
    const own = { type: 'thinking', thinking: 'b', signature: 'own' };
    const text = { type: 'text', text: 'c' };
    const user = { role: 'user', content: 'x' };
    const said = (content: unknown[]) => ({ role: 'assistant', content });
    const redacted = { type: 'redacted_thinking', data: ENVELOPE };
    const messages = [
      user,
      said([foreign, text, foreign]),
      said([foreign, redacted]),
      said([own, foreign, text]),
      user,
    ];
    expect(passed('messages', { model: 'm', messages })).toEqual({
      model: 'm',
      messages: [user, said([text]), said([own, text]), user],
    });
  });

  it('loses citations of another vendor, of which only the text is left', () => {
    const cited = (...indexes: readonly string[]) => ({
      type: 'text',
      text: 'a',
      citations: indexes.map((encrypted_index) => ({ type: 'web_search_result_location', encrypted_index })),
    });
    const messages = (...content: readonly object[]) => ({ messages: [{ role: 'assistant', content }] });
    const foreign = FOREIGN_CITATION;
    expect(
      passed('messages', messages(cited(foreign, 'own', foreign), cited(foreign, foreign), cited('own'))),
    ).toEqual(messages(cited('own'), { type: 'text', text: 'a' }, cited('own')));
  });

  it('loses the details of reasoning that another vendor signed, in chat completions', () => {
    const foreign = { type: 'reasoning.text', text: 'a', signature: ENVELOPE, index: 0 };
    const hidden = { type: 'reasoning.encrypted', data: ENVELOPE, index: 1 };
    const own = { type: 'reasoning.text', text: 'b', signature: 'own' };
    const said = (...reasoning_details: readonly object[]) => ({
      role: 'assistant',
      content: 'c',
      reasoning_details,
    });
    expect(passed('chat', { messages: [said(foreign, own, hidden), said(foreign, hidden)] })).toEqual({
      messages: [said(own), { role: 'assistant', content: 'c' }],
    });
  });

  it('loses reasoning items that another vendor encrypted', () => {
    const foreign = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: ENVELOPE };
    const own = { type: 'reasoning', id: 'rs_2', summary: [], encrypted_content: 'own' };
    const user = { role: 'user', content: 'x' };
    expect(passed('responses', { input: [foreign, user, own, foreign, user] })).toEqual({
      input: [user, own, user],
    });
  });

  it('loses the signatures of calls that another vendor made', () => {
    const call = { id: 'call_1', type: 'function', function: { name: 'a', arguments: '{}' } };
    const signed = { ...call, extra_content: { google: { thought_signature: ENVELOPE } } };
    const google = { ...call, extra_content: { google: { thought_signature: 'own' } } };
    const chat = (...tool_calls: unknown[]) => ({
      messages: [{ role: 'assistant', content: null, tool_calls }],
    });
    expect(passed('chat', chat(signed, google, signed))).toEqual(chat(call, google, call));

    const part = { functionCall: { name: 'a', args: {} } };
    const contents = (...parts: unknown[]) => ({ contents: [{ role: 'model', parts }] });
    const foreign = { thoughtSignature: encodeSignature(ENVELOPE), ...part };
    const own = { ...part, thoughtSignature: 'b3du' };
    expect(passed('gemini', contents(foreign, own))).toEqual(contents(part, own));
  });
});
