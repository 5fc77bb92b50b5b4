import { type MediaPart, markPath, type Part, type ReasoningPart, type ResultPart } from '../ir/request.ts';
import { present, raw } from '../json/writeJson.ts';
import { readDataUrl } from '../wire/dataUrl.ts';
import { toolName } from '../wire/ids.ts';
import { callArguments, ownOpaque, takesMedia, targetCallId, type WriteContext } from '../writeContext.ts';
import type { ConverseBlock, ConverseResult } from './wire.ts';

/** The blocks of a part: none if it has no counterpart, and then its loss is named. A mark becomes a cache point after it. */
export function writePart(part: Part, context: WriteContext): ConverseBlock[] {
  const block = writeBlock(part, context);
  const isMarked = cachesAfter(part, context);
  if (!block) return [];
  return isMarked ? [block, CACHE_POINT] : [block];
}

export const CACHE_POINT = { cachePoint: { type: 'default' } } as const;

/** Whether a cache point stands after a part. Only Claude, which is reached otherwise, takes one for an hour. */
export function cachesAfter(part: Part, { quirks, losses }: WriteContext): boolean {
  const { cache } = part;
  if (!cache) return false;
  if (!quirks.cacheMarks) {
    losses.add(markPath(part), 'dropped', 'the model takes no cache marks');
    return false;
  }
  if (cache.ttl === '1h') losses.add(`${markPath(part)}.ttl`, 'changed', 'the model caches for five minutes');
  return true;
}

/** Undefined if the part has no counterpart. Empty texts are refused there. */
function writeBlock(part: Part, context: WriteContext): ConverseBlock | undefined {
  switch (part.kind) {
    case 'text':
    case 'refusal':
      return part.text.trim() === '' ? undefined : { text: part.text };
    case 'media':
      return takesMedia(part, context) ? writeMedia(part, context) : undefined;
    case 'reasoning':
      return writeReasoning(part, context);
    case 'call':
      return {
        toolUse: {
          toolUseId: targetCallId(part.id, context),
          name: toolName(part.name),
          input: raw(callArguments(part, context)),
        },
      };
    case 'result':
      return { toolResult: writeResult(part, context) };
    case 'reference':
      return { text: `Tool loaded: ${part.name}` };
  }
}

function writeReasoning(part: ReasoningPart, context: WriteContext): ConverseBlock | undefined {
  const opaque = ownOpaque(part, context);
  if (!opaque) return undefined;
  if (opaque.kind === 'redacted') return { reasoningContent: { redactedContent: opaque.data } };
  const text = part.text === '' ? (opaque.envelope?.text ?? '') : part.text;
  return { reasoningContent: { reasoningText: { text, signature: opaque.data } } };
}

const WITHIN_RESULTS = 'cache points stand between blocks of a message there';

function writeResult(part: ResultPart, context: WriteContext): ConverseResult {
  const { losses } = context;
  return present<ConverseResult>({
    toolUseId: targetCallId(part.id, context),
    content: part.parts.flatMap((inner) => {
      if (inner.cache) losses.add(markPath(inner), 'dropped', WITHIN_RESULTS);
      return writeBlock(inner, context) ?? [];
    }),
    status: part.failed ? 'error' : undefined,
  });
}

const IMAGES: Readonly<Record<string, string>> = {
  'image/gif': 'gif',
  'image/jpeg': 'jpeg',
  'image/jpg': 'jpeg',
  'image/png': 'png',
  'image/webp': 'webp',
};
const DOCUMENTS: Readonly<Record<string, string>> = {
  'application/json': 'txt',
  'application/msword': 'doc',
  'application/pdf': 'pdf',
  'application/vnd.ms-excel': 'xls',
  'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet': 'xlsx',
  'application/vnd.openxmlformats-officedocument.wordprocessingml.document': 'docx',
  'text/csv': 'csv',
  'text/html': 'html',
  'text/markdown': 'md',
  'text/plain': 'txt',
};
const DEFAULT_NAME = 'document';

function writeMedia(part: MediaPart, { losses }: WriteContext): ConverseBlock | undefined {
  const { media, name, detail, path } = part;
  const source = bytesOf(part);
  const format = source && (media === 'image' ? IMAGES : DOCUMENTS)[source.type];
  if (!source || format === undefined) {
    losses.add(path, 'refused', `the vendor does not take this type of ${media}`);
    return undefined;
  }
  if (detail !== undefined) losses.add(`${path}.detail`, 'dropped', 'it has no counterpart');
  if (media === 'image') {
    if (name !== undefined) losses.add(`${path}.filename`, 'dropped', 'images have no name there');
    return { image: { format, source: { bytes: source.data } } };
  }
  const plain = plainName(name ?? DEFAULT_NAME);
  if (name !== undefined && plain !== name) {
    losses.add(
      `${path}.filename`,
      'changed',
      'names have letters, digits, spaces, hyphens and brackets there',
    );
  }
  return { document: { format, name: plain, source: { bytes: source.data } } };
}

function bytesOf({ source }: MediaPart): { readonly type: string; readonly data: string } | undefined {
  if (source.from === 'base64') return source;
  return source.from === 'url' ? readDataUrl(source.url) : undefined;
}

/** A name as Converse takes it: no other characters, and no more than one space in a row. */
function plainName(name: string): string {
  const plain = name
    .replace(/[^a-zA-Z0-9\s()[\]-]/g, '-')
    .replace(/\s+/g, ' ')
    .slice(0, 200)
    .trim();
  return plain === '' ? DEFAULT_NAME : plain;
}
