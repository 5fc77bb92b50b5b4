import type { ChatCompletionMessage } from 'openai/resources/chat/completions/completions';
import type { CitationEvent } from '../ir/event.ts';

/** The annotation of a message, whose offsets are those of all of its text. */
export function writeChatAnnotation({
  citation: { url = '', title = '' },
  place: { start, end, before },
}: CitationEvent): ChatCompletionMessage.Annotation {
  const [start_index, end_index] = [before.characters + start, before.characters + end];
  return { type: 'url_citation', url_citation: { start_index, end_index, url, title } };
}
