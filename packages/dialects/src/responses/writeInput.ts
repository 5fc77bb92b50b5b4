import type { ResponseInputContent, ResponseInputItem } from 'openai/resources/responses/responses';
import {
  type MediaPart,
  type Message,
  markPath,
  type Part,
  type ReasoningPart,
  type ResultPart,
} from '../ir/request.ts';
import { present } from '../json/writeJson.ts';
import { writeDataUrl } from '../wire/dataUrl.ts';
import { toolName } from '../wire/ids.ts';
import { callArguments, ownOpaque, takesMedia, targetCallId, type WriteContext } from '../writeContext.ts';

/** Told to the model before a result, where its dialect has no member for it. */
export const FAILED_RESULT = '[tool error]';

/** The items of a conversation. */
export function writeInput(messages: readonly Message[], context: WriteContext): ResponseInputItem[] {
  const items: ResponseInputItem[] = [];
  const freeform = new Set<string>();
  for (const { role, parts } of messages) {
    let content: ResponseInputContent[] = [];
    const begin = items.length;
    const flush = () => {
      if (content.length > 0) items.push({ type: 'message', role: wireRole(role, context), content });
      content = [];
    };
    for (const part of parts) {
      noteMark(part, context);
      const item = writeItem(part, role, freeform, context);
      if (item === 'content') {
        const one = writeContent(part, context);
        if (one) content.push(one);
      } else if (item) {
        flush();
        const last = items.length > begin ? items.at(-1) : undefined;
        // A caller got it after the text that it came before.
        if (isUnread(item) && last?.type === 'message') items.splice(-1, 0, item);
        else items.push(item);
      }
    }
    flush();
  }
  return items;
}

/** Reasoning without text (readStream.ts). */
function isUnread(item: ResponseInputItem): boolean {
  return item.type === 'reasoning' && item.summary.length === 0;
}

function wireRole(role: Message['role'], { quirks }: WriteContext): 'user' | 'developer' | 'system' {
  return role === 'instruction' ? (quirks.instructionRole ?? 'system') : 'user';
}

function noteMark(part: Part, { losses }: WriteContext): void {
  if (part.cache) losses.add(markPath(part), 'dropped', 'prefixes are cached without marks there');
}

/** An item of its own; `content` for what is part of a message. */
function writeItem(
  part: Part,
  role: Message['role'],
  freeform: Set<string>,
  context: WriteContext,
): ResponseInputItem | 'content' | undefined {
  switch (part.kind) {
    case 'reasoning':
      return writeReasoning(part, context);
    case 'call': {
      const call_id = targetCallId(part.id, context);
      const name = toolName(part.name);
      if (part.form === 'text' && context.quirks.freeformTools) {
        freeform.add(call_id);
        return { type: 'custom_tool_call', call_id, name, input: part.input };
      }
      return { type: 'function_call', call_id, name, arguments: callArguments(part, context) };
    }
    case 'result':
      return writeResult(part, freeform, context);
    case 'text':
    case 'refusal':
      if (role !== 'assistant') return 'content';
      return part.text === '' ? undefined : { type: 'message', role, content: part.text };
    default:
      if (role !== 'assistant') return 'content';
      context.losses.add(part.path, 'refused', `the assistant can't have ${part.kind} there`);
      return undefined;
  }
}

function writeReasoning(part: ReasoningPart, context: WriteContext): ResponseInputItem | undefined {
  const opaque = ownOpaque(part, context);
  if (!opaque) return undefined;
  const text = part.text === '' ? (opaque.envelope?.text ?? '') : part.text;
  const summary = text === '' ? [] : [{ type: 'summary_text' as const, text }];
  return { type: 'reasoning', id: opaque.id, summary, encrypted_content: opaque.data };
}

function writeContent(part: Part, context: WriteContext): ResponseInputContent | undefined {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return { type: 'input_text', text: part.text };
    case 'reference':
      return { type: 'input_text', text: `Tool loaded: ${part.name}` };
    case 'media':
      return takesMedia(part, context) ? writeMedia(part, context) : undefined;
    default:
      context.losses.add(part.path, 'refused', `${part.kind} has no place there`);
      return undefined;
  }
}

function writeMedia(part: MediaPart, { losses }: WriteContext): ResponseInputContent | undefined {
  const { source, media, name, path, detail } = part;
  if (media === 'image') {
    if (name !== undefined) losses.add(`${path}.title`, 'dropped', 'images have no name there');
    const level = (detail ?? 'auto') as 'auto';
    if (source.from === 'file') return { type: 'input_image', file_id: source.id, detail: level };
    return { type: 'input_image', image_url: writeDataUrl(source), detail: level };
  }
  if (media !== 'document') {
    losses.add(path, 'refused', `responses take no ${media}`);
    return undefined;
  }
  if (detail !== undefined) losses.add(`${path}.detail`, 'dropped', 'it has no counterpart');
  if (source.from === 'file') return { type: 'input_file', file_id: source.id };
  if (source.from === 'url') {
    if (name !== undefined) losses.add(`${path}.title`, 'dropped', 'a file at an address has no name there');
    return { type: 'input_file', file_url: source.url };
  }
  return present({
    type: 'input_file' as const,
    filename: name ?? 'document.pdf',
    file_data: writeDataUrl(source),
  });
}

function writeResult(
  part: ResultPart,
  freeform: ReadonlySet<string>,
  context: WriteContext,
): ResponseInputItem {
  const call_id = targetCallId(part.id, context);
  for (const inner of part.parts) noteMark(inner, context);
  const content = part.parts.flatMap((inner) => writeContent(inner, context) ?? []);
  if (part.failed) {
    context.losses.add(`${part.path}.is_error`, 'changed', 'it is said in the text');
    content.unshift({ type: 'input_text', text: FAILED_RESULT });
  }
  const texts = content.flatMap((one) => (one.type === 'input_text' ? [one.text] : []));
  const output = texts.length === content.length && texts.length <= 1 ? (texts[0] ?? '') : content;
  const type = freeform.has(call_id) ? 'custom_tool_call_output' : 'function_call_output';
  return { type, call_id, output } as ResponseInputItem;
}
