import type {
  BetaCitationsConfigParam,
  BetaContentBlockParam,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { EARLIER_CITATIONS } from '../citations/source.ts';
import { readContentParts } from '../conversation/contentParts.ts';
import { OWNERS } from '../format.ts';
import type { MediaSource, OpaqueKind, Part } from '../ir/request.ts';
import type { Fields, ReadContext } from '../loss/fields.ts';
import { readOpaque } from '../wire/seal.ts';
import { type BlockWire, readCacheMark, type SourceWire } from './wire.ts';

type Block = Fields<BlockWire>;
type BlockType = BetaContentBlockParam['type'];

/** Blocks of tools that the vendor ran: another vendor can't read them, nor needs to. */
const HOSTED_BLOCKS: ReadonlySet<string> = new Set<BlockType>([
  'server_tool_use',
  'web_search_tool_result',
  'web_fetch_tool_result',
  'code_execution_tool_result',
  'bash_code_execution_tool_result',
  'text_editor_code_execution_tool_result',
  'tool_search_tool_result',
]);

/** Where blocks are: nesting ends with passages, which have text only. */
type Place = 'message' | 'result' | 'passage';

/** The parts of a text, or of a list of content blocks. */
export function readContent(
  content: unknown,
  path: string,
  context: ReadContext,
  place: Place = 'message',
): Part[] {
  return readContentParts<BlockWire>(content, path, context, (block) => readBlock(block, place));
}

function readBlock(block: Block, place: Place): Part | undefined {
  const { path, context } = block;
  const type = block.need('type', block.text('type')) ?? '';
  const isAllowed = place === 'message' || (place === 'result' ? isNestable(type) : type === 'text');
  const part = isAllowed ? readKnown(type, block) : undefined;
  if (part) {
    block.end();
    return part;
  }
  if (HOSTED_BLOCKS.has(type))
    context.losses.add(path, 'dropped', 'it belongs to a tool that another vendor ran');
  else if (!isAllowed || !MEDIA.has(type)) {
    context.losses.add(path, 'refused', `a block of type ${type.slice(0, 40)} has no counterpart`);
  }
  return undefined;
}

/** Their readers name what they refuse. */
const MEDIA: ReadonlySet<string> = new Set(['image', 'document']);

/** What a tool's result may have. */
function isNestable(type: string): boolean {
  return type === 'text' || type === 'tool_reference' || type === 'search_result' || MEDIA.has(type);
}

function readKnown(type: string, block: Block): Part | undefined {
  const { path, context } = block;
  switch (type) {
    case 'text':
      block.drop('citations', EARLIER_CITATIONS);
      return { kind: 'text', text: requiredText(block, 'text'), path, cache: readCacheMark(block) };
    case 'image':
    case 'document':
      return readMedia(type, block);
    case 'thinking':
      return readThinking(block, requiredText(block, 'thinking'), block.text('signature'), 'signature');
    case 'redacted_thinking':
      return readThinking(block, '', block.text('data'), 'redacted');
    case 'tool_use': {
      block.drop('caller', 'only its vendor has it');
      const input = block.json('input');
      block.need('input', input);
      const id = requiredText(block, 'id');
      const name = requiredText(block, 'name');
      return {
        kind: 'call',
        form: 'json',
        id,
        name,
        input: input ?? '{}',
        path,
        cache: readCacheMark(block),
      };
    }
    case 'tool_result': {
      const content = block.take('content') ?? [];
      return {
        kind: 'result',
        id: requiredText(block, 'tool_use_id'),
        failed: block.flag('is_error') ?? false,
        parts: readContent(content, block.at('content'), context, 'result'),
        path,
        cache: readCacheMark(block),
      };
    }
    case 'tool_reference':
      return { kind: 'reference', name: requiredText(block, 'tool_name'), path, cache: readCacheMark(block) };
    case 'search_result':
      return readSearchResult(block);
    default:
      return undefined;
  }
}

function requiredText(block: Block, name: Parameters<Block['text']>[0]): string {
  return block.need(name, block.text(name)) ?? '';
}

function readThinking(block: Block, text: string, value: string | undefined, kind: OpaqueKind): Part {
  const opaque = value ? readOpaque(value, OWNERS.messages, kind) : undefined;
  return { kind: 'reasoning', text, opaque, path: block.path, cache: readCacheMark(block) };
}

function readMedia(type: 'image' | 'document', block: Block): Part | undefined {
  const { path, context } = block;
  const source = block.object<SourceWire>('source');
  block.need('source', source);
  if (type === 'document') {
    readCitationSetting(block);
    block.drop('context', 'it has no counterpart');
  }
  const name = block.text('title');
  const cache = readCacheMark(block);
  if (!source) return undefined;
  const from = source.text('type');
  if (from === 'text') {
    source.take('media_type');
    const text = source.text('data') ?? '';
    source.end();
    return { kind: 'text', text: name ? `${name}\n\n${text}` : text, path, cache };
  }
  const media = readSource(from, source);
  if (!media) {
    context.losses.add(
      source.path,
      'refused',
      `a source of type ${String(from).slice(0, 40)} has no counterpart`,
    );
    return undefined;
  }
  source.end();
  return { kind: 'media', media: type, source: media, name, path, cache };
}

/** Whether the model is to cite a document. */
function readCitationSetting(block: Block): void {
  const setting = block.object<BetaCitationsConfigParam>('citations');
  if (setting?.flag('enabled'))
    block.context.losses.add(setting.at('enabled'), 'dropped', 'only its vendor’s models cite documents');
  setting?.end();
}

function readSource(from: string | undefined, source: Fields<SourceWire>): MediaSource | undefined {
  if (from === 'base64') {
    const type = source.need('media_type', source.text('media_type'));
    const data = source.need('data', source.text('data'));
    return { from, type: type ?? '', data: data ?? '' };
  }
  if (from === 'url') return { from, url: source.need('url', source.text('url')) ?? '' };
  if (from === 'file') {
    return { from, owner: OWNERS.messages, id: source.need('file_id', source.text('file_id')) ?? '' };
  }
  return undefined;
}

/** A passage that a search found: as text, with where it is from. */
function readSearchResult(block: Block): Part {
  const { path, context } = block;
  context.losses.add(path, 'changed', 'it is sent as text');
  readCitationSetting(block);
  const title = requiredText(block, 'title');
  const source = block.take('source');
  const parts = readContent(block.take('content') ?? [], block.at('content'), context, 'passage');
  const texts = parts.flatMap((part) => (part.kind === 'text' ? [part.text] : []));
  const text = [title, typeof source === 'string' ? source : '', ...texts]
    .filter((one) => one !== '')
    .join('\n');
  return { kind: 'text', text, path, cache: readCacheMark(block) };
}
