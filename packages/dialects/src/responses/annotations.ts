import type { ResponseOutputText } from 'openai/resources/responses/responses';
import { citationOf, nativeOf } from '../citations/source.ts';
import type { CitedSpan } from '../ir/citation.ts';
import type { CitationEvent, StreamEvent } from '../ir/event.ts';
import { textOf } from '../json/writeJson.ts';
import { isRecord } from '../loss/fields.ts';

export type Annotation = ResponseOutputText['annotations'][number];

/** An annotation: its span is one of its block, or of the answer if the block is undefined. */
export function readAnnotation(at: number | undefined, annotation: unknown): StreamEvent {
  const wire = isRecord(annotation) ? annotation : {};
  const type = textOf(wire.type);
  // In chat completions, what it says is in a member of its own.
  const nested = wire[type];
  const said = isRecord(nested) ? nested : wire;
  const citation = citationOf({
    url: said.url,
    title: said.title ?? said.filename,
    native: nativeOf([{ type }, said]),
  });
  if (!citation || !type.endsWith('citation')) return { type: 'unknown', name: type || 'annotation' };
  return { type: 'cite', at, citation, span: spanOf(said) };
}

function spanOf({
  start_index: start,
  end_index: end,
}: Readonly<Record<string, unknown>>): CitedSpan | undefined {
  if (typeof start !== 'number' || typeof end !== 'number') return undefined;
  return { start, end, unit: 'characters', text: undefined };
}

/** What has no address is said to be a file. */
export function writeAnnotation({ citation: { url, title = '' }, place }: CitationEvent): Annotation {
  const { start, end } = place;
  return url === undefined
    ? { type: 'file_citation', file_id: '', filename: title, index: end }
    : { type: 'url_citation', start_index: start, end_index: end, url, title };
}
