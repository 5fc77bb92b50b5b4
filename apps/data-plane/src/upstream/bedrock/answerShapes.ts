import { anthropicError } from './anthropicError.ts';

/** What AWS's frames and errors become, so that the rest of the proxy reads one kind of stream. */
export interface AnswerShape {
  /** A frame of an event, by the name of its type: the text of server-sent events. Throws if it is none. */
  event(type: string, payload: string): string;
  exception(code: string, message: string): string;
  error(code: string, message: string): object;
}

/** InvokeModel wraps the events of Anthropic's API. */
export const ANTHROPIC_SHAPE: AnswerShape = {
  event(_type, payload) {
    const { bytes } = JSON.parse(payload) as { readonly bytes?: unknown };
    // Events without a payload keep the connection open.
    if (typeof bytes !== 'string') return '';
    const data = Buffer.from(bytes, 'base64').toString('utf8');
    const event = JSON.parse(data) as { readonly type?: unknown };
    if (typeof event.type !== 'string') return '';
    return named(event.type, data.includes('\n') ? JSON.stringify(event) : data);
  },
  exception: (code, message) => named('error', JSON.stringify(anthropicError(code, message))),
  error: anthropicError,
};

/** Converse's events have their type in a header: it becomes the name of their only member. */
export const CONVERSE_SHAPE: AnswerShape = {
  event(type, payload) {
    const event: unknown = JSON.parse(payload);
    if (typeof event !== 'object' || event === null || type === '') return '';
    const data = payload.includes('\n') ? JSON.stringify(event) : payload;
    return `data: {${JSON.stringify(type)}:${data}}\n\n`;
  },
  exception: (code, message) => `data: ${JSON.stringify({ exception: { code, message } })}\n\n`,
  error: (code, message) => ({ __type: code, message: message || code || 'Bedrock answered with an error.' }),
};

function named(event: string, data: string): string {
  return `event: ${event}\ndata: ${data}\n\n`;
}
