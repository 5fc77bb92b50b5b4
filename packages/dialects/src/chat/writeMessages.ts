import type {
  ChatCompletionContentPart,
  ChatCompletionMessageParam,
  ChatCompletionMessageToolCall,
} from 'openai/resources/chat/completions/completions';
import {
  type CallPart,
  type MediaPart,
  type Message,
  markPath,
  type Part,
  type ResultPart,
  type TextPart,
} from '../ir/request.ts';
import { FAILED_RESULT } from '../responses/writeInput.ts';
import { writeDataUrl } from '../wire/dataUrl.ts';
import { toolName } from '../wire/ids.ts';
import { callArguments, ownOpaque, takesMedia, targetCallId, type WriteContext } from '../writeContext.ts';

type Wire = ChatCompletionMessageParam;

/** The messages of a conversation. */
export function writeMessages(
  system: readonly TextPart[],
  messages: readonly Message[],
  context: WriteContext,
): Wire[] {
  const written: Wire[] = [];
  if (system.length > 0) {
    for (const part of system) noteMark(part, context);
    written.push({ role: 'system', content: system.map(({ text }) => text).join('\n\n') });
  }
  for (const message of messages) {
    if (message.role === 'assistant') written.push(...writeAssistant(message.parts, context));
    else if (message.role === 'user') writeUser(message.parts, written, context);
    else written.push(writeInstruction(message.parts, context));
  }
  return written;
}

function noteMark(part: Part, { losses }: WriteContext): void {
  if (part.cache) losses.add(markPath(part), 'dropped', 'prefixes are cached without marks there');
}

function writeInstruction(parts: readonly Part[], context: WriteContext): Wire {
  const { quirks, losses } = context;
  const texts = parts.flatMap((part) => {
    noteMark(part, context);
    if (part.kind === 'text') return [part.text];
    losses.add(part.path, 'refused', 'instructions take text only');
    return [];
  });
  const content = texts.join('\n\n');
  return { role: quirks.instructionRole ?? 'system', content };
}

/** Results come first; media in them go to the user's message, since results take text only. */
function writeUser(parts: readonly Part[], written: Wire[], context: WriteContext): void {
  const content: ChatCompletionContentPart[] = [];
  for (const part of parts) {
    noteMark(part, context);
    if (part.kind === 'result') written.push(writeResult(part, content, context));
    else {
      const one = writeContent(part, context);
      if (one) content.push(one);
    }
  }
  const [only] = content;
  if (only?.type === 'text' && content.length === 1) written.push({ role: 'user', content: only.text });
  else if (content.length > 0) written.push({ role: 'user', content });
}

function writeResult(part: ResultPart, moved: ChatCompletionContentPart[], context: WriteContext): Wire {
  const { losses } = context;
  const texts: string[] = [];
  if (part.failed) {
    losses.add(`${part.path}.is_error`, 'changed', 'it is said in the text');
    texts.push(FAILED_RESULT);
  }
  for (const inner of part.parts) {
    noteMark(inner, context);
    if (inner.kind === 'text') texts.push(inner.text);
    else if (inner.kind === 'reference') texts.push(`Tool loaded: ${inner.name}`);
    else {
      const media = writeContent(inner, context);
      if (!media) continue;
      losses.add(inner.path, 'changed', 'it is sent in a message of the user after the result');
      moved.push(media);
    }
  }
  return { role: 'tool', tool_call_id: targetCallId(part.id, context), content: texts.join('\n') };
}

function writeContent(part: Part, context: WriteContext): ChatCompletionContentPart | undefined {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return { type: 'text', text: part.text };
    case 'reference':
      return { type: 'text', text: `Tool loaded: ${part.name}` };
    case 'media':
      return takesMedia(part, context) ? writeMedia(part, context) : undefined;
    default:
      context.losses.add(part.path, 'refused', `${part.kind} has no place there`);
      return undefined;
  }
}

function writeMedia(part: MediaPart, { losses }: WriteContext): ChatCompletionContentPart | undefined {
  const { media, source, name, detail, path } = part;
  if (media === 'image' && source.from !== 'file') {
    if (name !== undefined) losses.add(`${path}.title`, 'dropped', 'images have no name there');
    const url = writeDataUrl(source);
    return {
      type: 'image_url',
      image_url: detail === undefined ? { url } : { url, detail: detail as 'auto' },
    };
  }
  if (detail !== undefined) losses.add(`${path}.detail`, 'dropped', 'it has no counterpart');
  if (media === 'document' && source.from === 'base64') {
    return { type: 'file', file: { filename: name ?? 'document.pdf', file_data: writeDataUrl(source) } };
  }
  if (name !== undefined) losses.add(`${path}.title`, 'dropped', 'it has no name there');
  if (media === 'document' && source.from === 'file') return { type: 'file', file: { file_id: source.id } };
  const format = source.from === 'base64' ? AUDIO_FORMATS[source.type] : undefined;
  if (media === 'audio' && source.from === 'base64' && format) {
    return { type: 'input_audio', input_audio: { data: source.data, format } };
  }
  losses.add(path, 'refused', `chat completions take no such ${media}; send its bytes`);
  return undefined;
}

const AUDIO_FORMATS: Readonly<Record<string, 'wav' | 'mp3'>> = {
  'audio/wav': 'wav',
  'audio/x-wav': 'wav',
  'audio/mp3': 'mp3',
  'audio/mpeg': 'mp3',
};

function writeAssistant(parts: readonly Part[], context: WriteContext): Wire[] {
  const texts: string[] = [];
  const reasoning: string[] = [];
  const calls: ChatCompletionMessageToolCall[] = [];
  for (const part of parts) {
    noteMark(part, context);
    if (part.kind === 'text' || part.kind === 'refusal') texts.push(part.text);
    else if (part.kind === 'call') calls.push(writeCall(part, context));
    else if (part.kind !== 'reasoning') {
      context.losses.add(part.path, 'refused', `the assistant can't have ${part.kind} there`);
    } else if (context.quirks.reasoningMember && part.text !== '') reasoning.push(part.text);
    else ownOpaque(part, context);
  }
  const content = texts.join('');
  const member = context.quirks.reasoningMember;
  const thought = member && reasoning.length > 0 ? { [member]: reasoning.join('\n\n') } : undefined;
  if (content === '' && calls.length === 0 && !thought) return [];
  const said = content === '' && calls.length > 0 ? null : content;
  const message = { role: 'assistant' as const, content: said, ...thought };
  return [calls.length > 0 ? { ...message, tool_calls: calls } : message];
}

function writeCall(part: CallPart, context: WriteContext): ChatCompletionMessageToolCall {
  const id = targetCallId(part.id, context);
  const name = toolName(part.name);
  if (part.form === 'text' && context.quirks.freeformTools) {
    return { id, type: 'custom', custom: { name, input: part.input } };
  }
  return { id, type: 'function', function: { name, arguments: callArguments(part, context) } };
}
