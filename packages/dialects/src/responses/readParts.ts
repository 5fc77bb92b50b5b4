import type {
  ResponseInputContent,
  ResponseOutputRefusal,
  ResponseOutputText,
} from 'openai/resources/responses/responses';
import { EARLIER_CITATIONS } from '../citations/source.ts';
import { readContentParts, readTypedPart } from '../conversation/contentParts.ts';
import { OWNERS } from '../format.ts';
import type { MediaSource, Part } from '../ir/request.ts';
import type { Fields, ReadContext } from '../loss/fields.ts';
import { mediaOfType, readDataUrl } from '../wire/dataUrl.ts';

type PartWire =
  | ResponseInputContent
  | ResponseOutputText
  | ResponseOutputRefusal
  | { readonly input_audio?: unknown; readonly prompt_cache_breakpoint?: unknown };
type PartFields = Fields<PartWire>;

/** The parts of a text, or of a list of content parts. */
export function readParts(content: unknown, path: string, context: ReadContext): Part[] {
  return readContentParts<PartWire>(content, path, context, (fields) =>
    readTypedPart(fields, fields.need('type', fields.text('type')) ?? '', readKnown),
  );
}

function readKnown(type: string, fields: PartFields): Part | undefined {
  const { path } = fields;
  fields.drop('prompt_cache_breakpoint', 'it has no counterpart');
  switch (type) {
    case 'input_text':
    case 'output_text':
    case 'text':
      fields.drop('annotations', EARLIER_CITATIONS);
      fields.take('logprobs');
      return { kind: 'text', text: fields.need('text', fields.text('text')) ?? '', path };
    case 'refusal':
      return { kind: 'refusal', text: fields.need('refusal', fields.text('refusal')) ?? '', path };
    case 'input_image': {
      const detail = fields.text('detail');
      const source = readSource(fields.text('image_url'), fields.text('file_id'));
      return (
        source && {
          kind: 'media',
          media: 'image',
          source,
          detail: detail === 'auto' ? undefined : detail,
          path,
        }
      );
    }
    case 'input_file':
      return readFile(fields);
    case 'input_audio':
      return readAudio(fields);
    default:
      return undefined;
  }
}

function readSource(url: string | undefined, file: string | undefined): MediaSource | undefined {
  if (file !== undefined) return { from: 'file', owner: OWNERS.responses, id: file };
  return url === undefined ? undefined : (readDataUrl(url) ?? { from: 'url', url });
}

function readFile(fields: PartFields): Part | undefined {
  const { path } = fields;
  const name = fields.text('filename');
  const data = fields.text('file_data');
  const source = readSource(data ?? fields.text('file_url'), fields.text('file_id'));
  fields.drop('detail', 'it has no counterpart');
  if (!source) return undefined;
  const media = source.from === 'base64' ? mediaOfType(source.type) : 'document';
  return { kind: 'media', media, source, name, path };
}

function readAudio(fields: PartFields): Part | undefined {
  const audio = fields.object<{ data?: string; format?: string }>('input_audio');
  const data = audio?.text('data');
  const format = audio?.text('format');
  audio?.end();
  if (data === undefined || format === undefined) return undefined;
  const source: MediaSource = { from: 'base64', type: `audio/${format}`, data };
  return { kind: 'media', media: 'audio', source, path: fields.path };
}
