import type {
  CitationEvent,
  FinishEvent,
  OpenEvent,
  SearchEvent,
  StreamEvent,
  VendorError,
} from './event.ts';
import type { Opaque } from './request.ts';

/** A block of an answer, whole. */
export interface FoldedBlock {
  readonly open: OpenEvent;
  text: string;
  opaque: Opaque | undefined;
  readonly citations: CitationEvent[];
}

export interface FoldedAnswer {
  readonly blocks: readonly FoldedBlock[];
  /** Of all blocks, in their order. */
  readonly citations: readonly CitationEvent[];
  /** In their order, each with the number of blocks before it. */
  readonly searches: readonly { readonly search: SearchEvent; readonly after: number }[];
  readonly finish: FinishEvent | undefined;
  readonly error: VendorError | undefined;
}

/** Puts the events of an answer together, for a caller that did not ask for a stream. */
export class AnswerFold {
  readonly #blocks = new Map<number, FoldedBlock & { pieces: string[] }>();
  readonly #citations: CitationEvent[] = [];
  readonly #searches: { readonly search: SearchEvent; readonly after: number }[] = [];
  #finish: FinishEvent | undefined;
  #error: VendorError | undefined;

  push(event: StreamEvent): void {
    switch (event.type) {
      case 'open':
        this.#blocks.set(event.at, {
          open: event,
          text: '',
          pieces: [],
          opaque: undefined,
          citations: [],
        });
        return;
      case 'delta':
        this.#blocks.get(event.at)?.pieces.push(event.text);
        return;
      case 'opaque': {
        const block = this.#blocks.get(event.at);
        if (block) block.opaque = event.opaque;
        return;
      }
      case 'citation':
        this.#blocks.get(event.at)?.citations.push(event);
        this.#citations.push(event);
        return;
      case 'search':
        this.#searches.push({ search: event, after: this.#blocks.size });
        return;
      case 'finish':
        this.#finish = event;
        return;
      case 'error':
        this.#error = event.error;
    }
  }

  /** In the order in which the blocks opened. */
  get answer(): FoldedAnswer {
    const blocks = [...this.#blocks.values()];
    for (const block of blocks) block.text = block.pieces.join('');
    const [citations, searches] = [this.#citations, this.#searches];
    return { blocks, citations, searches, finish: this.#finish, error: this.#error };
  }
}

/** The blocks and searches of an answer, in their order. */
export function inOrder({ blocks, searches }: FoldedAnswer): (FoldedBlock | SearchEvent)[] {
  const items: (FoldedBlock | SearchEvent)[] = [];
  let at = 0;
  for (const { search, after } of searches) {
    items.push(...blocks.slice(at, after), search);
    at = after;
  }
  return [...items, ...blocks.slice(at)];
}
