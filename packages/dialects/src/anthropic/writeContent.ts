import type {
  BetaContentBlockParam,
  BetaImageBlockParam,
  BetaRequestDocumentBlock,
  BetaThinkingBlockParam,
  BetaToolResultBlockParam,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { type MediaPart, markPath, type Part, type ReasoningPart, type ResultPart } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { toolName } from '../wire/ids.ts';
import { callArguments, ownOpaque, takesMedia, targetCallId, type WriteContext } from '../writeContext.ts';
import { writeCacheMark } from './wire.ts';

/** The block of a part; undefined if it has none, and then its loss is named. Empty texts are refused there. */
export function writePart(part: Part, context: WriteContext): BetaContentBlockParam | undefined {
  const block = writeKnown(part, context);
  if (!block || !part.cache || part.kind === 'reasoning') return block;
  if (!context.quirks.cacheMarks) {
    context.losses.add(markPath(part), 'dropped', 'the model takes no cache marks');
    return block;
  }
  return { ...block, cache_control: writeCacheMark(part.cache) } as BetaContentBlockParam;
}

function writeKnown(part: Part, context: WriteContext): BetaContentBlockParam | undefined {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return part.text === '' ? undefined : { type: 'text', text: part.text };
    case 'media':
      return takesMedia(part, context) ? writeMedia(part, context) : undefined;
    case 'reasoning':
      return writeReasoning(part, context);
    case 'call':
      return {
        type: 'tool_use',
        id: targetCallId(part.id, context),
        name: toolName(part.name),
        input: raw(callArguments(part, context)),
      };
    case 'result':
      return writeResult(part, context);
    case 'reference':
      return { type: 'text', text: `Tool loaded: ${part.name}` };
  }
}

function writeReasoning(part: ReasoningPart, context: WriteContext): BetaContentBlockParam | undefined {
  const opaque = ownOpaque(part, context);
  if (!opaque) return undefined;
  if (opaque.kind === 'redacted') return { type: 'redacted_thinking', data: opaque.data };
  const thinking = part.text === '' ? (opaque.envelope?.text ?? '') : part.text;
  return { type: 'thinking', thinking, signature: opaque.data } satisfies BetaThinkingBlockParam;
}

function writeResult(part: ResultPart, context: WriteContext): BetaToolResultBlockParam {
  const content = part.parts.flatMap((inner) => writePart(inner, context) ?? []);
  return present<BetaToolResultBlockParam>({
    type: 'tool_result',
    tool_use_id: targetCallId(part.id, context),
    content: content as Exclude<BetaToolResultBlockParam['content'], string | undefined>,
    is_error: part.failed ? true : undefined,
  });
}

type Source = BetaImageBlockParam['source'] | BetaRequestDocumentBlock['source'];

function writeMedia(part: MediaPart, { losses }: WriteContext): BetaContentBlockParam | undefined {
  const { media, name, detail, path } = part;
  if (media !== 'image' && media !== 'document') {
    losses.add(path, 'refused', `messages take no ${media}`);
    return undefined;
  }
  if (!takesDocument(part)) {
    losses.add(path, 'refused', 'messages take documents of text, and PDF');
    return undefined;
  }
  if (detail !== undefined) losses.add(`${path}.detail`, 'dropped', 'it has no counterpart');
  const source = writeSource(part);
  if (media === 'image') {
    if (name !== undefined) losses.add(`${path}.filename`, 'dropped', 'images have no name there');
    return { type: 'image', source } as BetaImageBlockParam;
  }
  return present<BetaRequestDocumentBlock>({
    type: 'document',
    source: source as BetaRequestDocumentBlock['source'],
    title: name,
  });
}

/** The documents that messages take as bytes. */
const PDF = 'application/pdf';

function takesDocument({ media, source }: MediaPart): boolean {
  return media !== 'document' || source.from !== 'base64' || source.type === PDF || isText(source.type);
}

function isText(type: string): boolean {
  return type.startsWith('text/') || type === 'application/json';
}

function writeSource({ media, source }: MediaPart): Source {
  if (source.from === 'url') return { type: 'url', url: source.url };
  if (source.from === 'file') return { type: 'file', file_id: source.id };
  if (media === 'document' && isText(source.type)) {
    const data = Buffer.from(source.data, 'base64').toString('utf8');
    return { type: 'text', media_type: 'text/plain', data };
  }
  return { type: 'base64', media_type: source.type, data: source.data } as Source;
}
