import { Route } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { isCompleteResponse, isCompleteStream } from './completeness.ts';

const { CHAT_COMPLETIONS, MESSAGES, RESPONSES, EMBEDDINGS } = Route;
const whole = (route: Route, answer: unknown) =>
  isCompleteResponse(route, Buffer.from(JSON.stringify(answer)));
const stream = (route: Route, ...events: (object | string)[]) =>
  isCompleteStream(
    route,
    Buffer.from(
      events
        .map((event) => `data: ${typeof event === 'string' ? event : JSON.stringify(event)}\n\n`)
        .join(''),
    ),
  );
const choices = (...reasons: unknown[]) => ({
  choices: reasons.map((finish_reason, index) => ({ index, finish_reason })),
});

describe('a response is complete', () => {
  it.each([
    [CHAT_COMPLETIONS, choices('stop')],
    [CHAT_COMPLETIONS, choices('stop', 'tool_calls')],
    [EMBEDDINGS, { data: [{ embedding: [1] }] }],
    [MESSAGES, { type: 'message', stop_reason: 'end_turn' }],
    [MESSAGES, { type: 'message', stop_reason: 'tool_use' }],
    [RESPONSES, { status: 'completed', error: null, incomplete_details: null }],
  ])('%s %j', (route, answer) => expect(whole(route, answer)).toBe(true));
});

describe('a response is incomplete', () => {
  it.each([
    [CHAT_COMPLETIONS, choices('length')],
    [CHAT_COMPLETIONS, choices('stop', 'length')],
    [CHAT_COMPLETIONS, choices('content_filter')],
    [CHAT_COMPLETIONS, choices(null)],
    [CHAT_COMPLETIONS, choices('something new')],
    [CHAT_COMPLETIONS, choices()],
    [CHAT_COMPLETIONS, { ...choices('stop'), error: { message: 'x' } }],
    [CHAT_COMPLETIONS, []],
    [EMBEDDINGS, { data: [] }],
    [MESSAGES, { type: 'message', stop_reason: 'max_tokens' }],
    [MESSAGES, { type: 'message', stop_reason: 'pause_turn' }],
    [MESSAGES, { type: 'message', stop_reason: 'refusal' }],
    [MESSAGES, { type: 'message' }],
    [MESSAGES, { type: 'error', stop_reason: 'end_turn' }],
    [RESPONSES, { status: 'incomplete', incomplete_details: { reason: 'max_output_tokens' } }],
    [RESPONSES, { status: 'failed', error: {} }],
    [RESPONSES, { status: 'queued' }],
    [Route.UNSPECIFIED, choices('stop')],
  ])('%s %j', (route, answer) => expect(whole(route, answer)).toBe(false));

  it('that is not JSON', () =>
    expect(isCompleteResponse(CHAT_COMPLETIONS, Buffer.from('{"choices":['))).toBe(false));
});

describe('a stream', () => {
  it('of chunks is complete where each choice ends, and then the stream', () => {
    const first = { choices: [{ index: 0, delta: { content: 'a' }, finish_reason: null }] };
    const [stop, cut] = [choices('stop'), choices('length')];
    expect(stream(CHAT_COMPLETIONS, first, stop, { choices: [], usage: {} }, '[DONE]')).toBe(true);
    expect(stream(CHAT_COMPLETIONS, first, stop)).toBe(false);
    expect(stream(CHAT_COMPLETIONS, first, '[DONE]')).toBe(false);
    expect(stream(CHAT_COMPLETIONS, first, cut, '[DONE]')).toBe(false);
    expect(stream(CHAT_COMPLETIONS, choices('stop', null), '[DONE]')).toBe(false);
    expect(stream(CHAT_COMPLETIONS, stop, { error: { message: 'x' } }, '[DONE]')).toBe(false);
    expect(stream(CHAT_COMPLETIONS, stop, '[DONE]', first)).toBe(false);
    expect(stream(CHAT_COMPLETIONS, '{"choices":', '[DONE]')).toBe(false);
    expect(stream(CHAT_COMPLETIONS, '[DONE]')).toBe(false);
    expect(stream(CHAT_COMPLETIONS)).toBe(false);
  });

  it('of a message is complete with a stop reason and message_stop', () => {
    const because = (reason: string) => ({ type: 'message_delta', delta: { stop_reason: reason } });
    const stop = { type: 'message_stop' };
    expect(stream(MESSAGES, { type: 'message_start' }, because('end_turn'), stop)).toBe(true);
    expect(stream(MESSAGES, { type: 'message_start' }, because('max_tokens'), stop)).toBe(false);
    expect(stream(MESSAGES, { type: 'message_start' }, because('end_turn'))).toBe(false);
    expect(stream(MESSAGES, { type: 'message_start' }, stop)).toBe(false);
    expect(stream(MESSAGES, { type: 'error' }, because('end_turn'), stop)).toBe(false);
  });

  it('of a response is complete with response.completed', () => {
    const completed = { type: 'response.completed', response: { status: 'completed' } };
    expect(stream(RESPONSES, { type: 'response.created' }, completed)).toBe(true);
    expect(stream(RESPONSES, { type: 'response.created' })).toBe(false);
    const incomplete = { type: 'response.incomplete', response: { status: 'incomplete' } };
    expect(stream(RESPONSES, incomplete)).toBe(false);
    expect(stream(RESPONSES, { type: 'error' }, completed)).toBe(false);
  });

  it('of embeddings is never complete', () =>
    expect(stream(EMBEDDINGS, { data: [1] }, '[DONE]')).toBe(false));
});
