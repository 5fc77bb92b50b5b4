import { readContentParts, readTypedPart } from '../conversation/contentParts.ts';
import { OWNERS } from '../format.ts';
import type { CacheMark, MediaSource, Part } from '../ir/request.ts';
import type { Fields, ReadContext } from '../loss/fields.ts';
import { mediaOfType, readDataUrl } from '../wire/dataUrl.ts';
import type { Marked, PartWire } from './wire.ts';

type PartFields = Fields<PartWire>;

/** The content of a message. */
export function readContent(content: unknown, path: string, context: ReadContext): Part[] {
  return readContentParts<PartWire>(content, path, context, (fields) =>
    readTypedPart(fields, fields.need('type', fields.text('type')) ?? '', readKnown),
  );
}

/** The mark of a content part, a message or a tool. */
export function readMark(fields: Fields<Marked>): CacheMark | undefined {
  const mark = fields.object<{ type?: string; ttl?: string }>('cache_control');
  mark?.word('type', ['ephemeral']);
  const ttl = mark?.word('ttl', ['5m', '1h'] as const);
  mark?.end();
  return mark && { ttl, path: mark.path };
}

function readKnown(type: string, fields: PartFields): Part | undefined {
  const { path } = fields;
  switch (type) {
    case 'text':
      return {
        kind: 'text',
        text: fields.need('text', fields.text('text')) ?? '',
        path,
        cache: readMark(fields),
      };
    case 'refusal':
      return { kind: 'refusal', text: fields.need('refusal', fields.text('refusal')) ?? '', path };
    case 'image_url':
      return readImage(fields);
    case 'input_audio':
      return readAudio(fields);
    case 'file':
      return readFile(fields);
    default:
      return undefined;
  }
}

function readImage(fields: PartFields): Part | undefined {
  const image = fields.object<{ url?: string; detail?: string }>('image_url');
  const url = image?.text('url');
  const level = image?.text('detail');
  image?.end();
  if (url === undefined) return undefined;
  const source = readDataUrl(url) ?? { from: 'url' as const, url };
  const detail = level === 'auto' ? undefined : level;
  return { kind: 'media', media: 'image', source, detail, path: fields.path, cache: readMark(fields) };
}

function readAudio(fields: PartFields): Part | undefined {
  const audio = fields.object<{ data?: string; format?: string }>('input_audio');
  const data = audio?.text('data');
  const format = audio?.text('format');
  audio?.end();
  if (data === undefined || format === undefined) return undefined;
  const source: MediaSource = { from: 'base64', type: `audio/${format}`, data };
  return { kind: 'media', media: 'audio', source, path: fields.path, cache: readMark(fields) };
}

function readFile(fields: PartFields): Part | undefined {
  const file = fields.object<{ file_data?: string; file_id?: string; filename?: string }>('file');
  const data = file?.text('file_data');
  const id = file?.text('file_id');
  const name = file?.text('filename');
  file?.end();
  const source: MediaSource | undefined =
    id !== undefined
      ? { from: 'file', owner: OWNERS.chat, id }
      : data === undefined
        ? undefined
        : readDataUrl(data);
  if (!source) return undefined;
  const media = source.from === 'base64' ? mediaOfType(source.type) : 'document';
  return { kind: 'media', media, source, name, path: fields.path, cache: readMark(fields) };
}
