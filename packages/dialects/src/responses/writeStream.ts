import type { ResponseStreamEvent } from 'openai/resources/responses/responses';
import type { AnswerContext } from '../ir/answer.ts';
import type { NativeCitation } from '../ir/citation.ts';
import type {
  CitationEvent,
  OpenEvent,
  SearchEvent,
  StreamEvent,
  StreamWriter,
  VendorError,
} from '../ir/event.ts';
import type { Opaque } from '../ir/request.ts';
import { writeJson } from '../json/writeJson.ts';
import { namedFrame } from '../wire/frames.ts';
import { type Annotation, writeAnnotation } from './annotations.ts';
import { endOf, itemId, writeContentPart, writeItem, writeResponse, writeSearch } from './writeItems.ts';

interface OpenItem {
  readonly open: OpenEvent;
  readonly index: number;
  readonly pieces: string[];
  opaque: Opaque | undefined;
  readonly annotations: Annotation[];
}

type EventType = ResponseStreamEvent['type'];

/** Writes a stream of responses. It repeats each item when it is done, and all of them at the end. */
export class ResponsesStreamWriter implements StreamWriter {
  readonly #context: AnswerContext;
  readonly #items = new Map<number, OpenItem>();
  /** Texts that are done: a citation of one may come later. */
  readonly #done = new Map<number, OpenItem>();
  readonly #natives: NativeCitation[] = [];
  /** Those that are done, by their index. */
  readonly #output: object[] = [];
  #next = 0;
  #sequence = 0;
  #answer: string | undefined;

  constructor(context: AnswerContext) {
    this.#context = context;
  }

  get answer(): string | undefined {
    return this.#answer;
  }

  write(event: StreamEvent): string {
    switch (event.type) {
      case 'start': {
        const response = writeResponse(this.#context, []);
        return (
          this.#frame('response.created', { response }) + this.#frame('response.in_progress', { response })
        );
      }
      case 'open':
        return this.#open(event);
      case 'delta':
        return this.#delta(event.at, event.text);
      case 'opaque': {
        const item = this.#items.get(event.at);
        if (item) item.opaque = event.opaque;
        return '';
      }
      case 'citation':
        return this.#cite(event);
      case 'close':
        return this.#close(event.at);
      case 'search':
        return this.#search(event);
      case 'finish': {
        const { status } = endOf(event);
        const response = writeResponse(this.#context, this.#output, {
          finish: event,
          natives: this.#natives,
        });
        this.#answer = writeJson(response);
        return this.#frame(`response.${status}`, { response });
      }
      case 'error':
        return this.#fail(event.error);
      default:
        return '';
    }
  }

  #open(open: OpenEvent): string {
    const index = this.#next++;
    this.#items.set(open.at, { open, index, pieces: [], opaque: undefined, annotations: [] });
    const empty = { open, text: '', opaque: undefined, annotations: [] };
    const item = writeItem(empty, index, 'in_progress', this.#context);
    return (
      this.#frame('response.output_item.added', { output_index: index, item }) + this.#openPart(open, index)
    );
  }

  #openPart(open: OpenEvent, index: number): string {
    if (open.block === 'call') return '';
    const place = { item_id: itemId(open, index, this.#context), output_index: index };
    if (open.block === 'reasoning') {
      const part = { type: 'summary_text', text: '' };
      return this.#frame('response.reasoning_summary_part.added', { ...place, summary_index: 0, part });
    }
    const part = writeContentPart(open, '', []);
    return this.#frame('response.content_part.added', { ...place, content_index: 0, part });
  }

  /** Most frames are these, so they are not built as objects. */
  #delta(at: number, text: string): string {
    const item = this.#items.get(at);
    if (!item) return '';
    item.pieces.push(text);
    const { open, index } = item;
    if (this.#isWhole(open)) return '';
    const [type, place] = DELTAS[open.block === 'call' && open.form === 'text' ? 'freeform' : open.block];
    const id = itemId(open, index, this.#context);
    const logprobs = open.block === 'text' ? ',"logprobs":[]' : '';
    const head = `"type":"${type}","sequence_number":${this.#sequence++},"item_id":"${id}","output_index":${index}`;
    return `event: ${type}\ndata: {${head}${place},"delta":${JSON.stringify(text)}${logprobs}}\n\n`;
  }

  /** A call that is sent whole, once it is complete. */
  #isWhole(open: OpenEvent): boolean {
    return open.block === 'call' && this.#context.ownForms.has(open.name);
  }

  #close(at: number): string {
    const item = this.#items.get(at);
    if (!item) return '';
    this.#items.delete(at);
    const { open, index, opaque, annotations } = item;
    const text = item.pieces.join('');
    const written = writeItem({ open, text, opaque, annotations }, index, 'completed', this.#context);
    this.#output[index] = written;
    if (open.block === 'text')
      this.#done.set(at, { open, index, pieces: [], opaque: undefined, annotations });
    // In this order: each frame takes the next number.
    const parts = this.#closeParts(item, text);
    return parts + this.#frame('response.output_item.done', { output_index: index, item: written });
  }

  /** What comes once the text is done is in the response at the end, too: it has the same list. */
  #cite(event: CitationEvent): string {
    const item = this.#items.get(event.at) ?? this.#done.get(event.at);
    if (!item) return '';
    const { open, index, annotations } = item;
    const annotation = writeAnnotation(event);
    this.#natives.push(event.citation.native);
    const annotation_index = annotations.push(annotation) - 1;
    const place = { item_id: itemId(open, index, this.#context), output_index: index, content_index: 0 };
    return this.#frame('response.output_text.annotation.added', { ...place, annotation_index, annotation });
  }

  #closeParts({ open, index, annotations }: OpenItem, text: string): string {
    const place = { item_id: itemId(open, index, this.#context), output_index: index };
    if (this.#isWhole(open)) return '';
    if (open.block === 'call') {
      return open.form === 'text'
        ? this.#frame('response.custom_tool_call_input.done', { ...place, input: text })
        : this.#frame('response.function_call_arguments.done', {
            ...place,
            name: open.name,
            arguments: text,
          });
    }
    if (open.block === 'reasoning') {
      const part = { type: 'summary_text', text };
      return (
        this.#frame('response.reasoning_summary_text.done', { ...place, summary_index: 0, text }) +
        this.#frame('response.reasoning_summary_part.done', { ...place, summary_index: 0, part })
      );
    }
    const part = writeContentPart(open, text, annotations);
    const textDone =
      open.block === 'refusal'
        ? this.#frame('response.refusal.done', { ...place, content_index: 0, refusal: text })
        : this.#frame('response.output_text.done', { ...place, content_index: 0, text, logprobs: [] });
    return textDone + this.#frame('response.content_part.done', { ...place, content_index: 0, part });
  }

  #search(search: SearchEvent): string {
    const index = this.#next++;
    const item = writeSearch(search, index, 'completed', this.#context);
    this.#output[index] = item;
    const place = { output_index: index, item_id: item.id };
    const added = writeSearch(search, index, 'in_progress', this.#context);
    return (
      this.#frame('response.output_item.added', { output_index: index, item: added }) +
      this.#frame('response.web_search_call.in_progress', place) +
      this.#frame('response.web_search_call.searching', place) +
      this.#frame('response.web_search_call.completed', place) +
      this.#frame('response.output_item.done', { output_index: index, item })
    );
  }

  #fail(error: VendorError): string {
    const output = this.#output.filter((item) => item !== undefined);
    const response = writeResponse(this.#context, output, { error });
    return this.#frame('response.failed', { response });
  }

  #frame(type: EventType, members: object): string {
    return namedFrame(type, { type, sequence_number: this.#sequence++, ...members });
  }
}

const DELTAS: Readonly<Record<OpenEvent['block'] | 'freeform', readonly [type: EventType, place: string]>> = {
  text: ['response.output_text.delta', ',"content_index":0'],
  refusal: ['response.refusal.delta', ',"content_index":0'],
  reasoning: ['response.reasoning_summary_text.delta', ',"summary_index":0'],
  call: ['response.function_call_arguments.delta', ''],
  freeform: ['response.custom_tool_call_input.delta', ''],
};
