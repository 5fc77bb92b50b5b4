import type { CitedPlace, CitedSpan } from '../ir/citation.ts';
import type { CiteEvent, StreamEvent } from '../ir/event.ts';
import { MAX_CITATIONS } from './source.ts';
import { TextOffsets } from './textOffsets.ts';

/** What a caller's dialect has no place for. */
export interface CitationLimits {
  /** It names the address of each source. */
  readonly needsUrl: boolean;
  /** A text takes no citation once it is over. */
  readonly needsOpenText: boolean;
}

/** Of a longer answer, citations have no exact place. */
const MAX_KEPT_LENGTH = 1024 * 1024;

/** A text of an answer. */
interface CitedText {
  readonly at: number;
  readonly pieces: string[];
  isOpen: boolean;
  /** Of the pieces; undefined until it is needed, and once there are more. */
  offsets: TextOffsets | undefined;
}

/**
 * Says of each citation of an answer which part of which text it is about. What a vendor says of a block is known once the block
 * is over; what it says of the answer comes after the text.
 */
export class AnswerCitations {
  readonly #limits: CitationLimits;
  /** In the order in which they opened. */
  readonly #texts = new Map<number, CitedText>();
  #waiting: CiteEvent[] = [];
  readonly #seen = new Set<string>();
  #count = 0;
  #keptLength = 0;

  constructor(limits: CitationLimits) {
    this.#limits = limits;
  }

  /** The events that go on in place of one. */
  push(event: StreamEvent): readonly StreamEvent[] {
    switch (event.type) {
      case 'open':
        if (event.block === 'text') {
          this.#texts.set(event.at, { at: event.at, pieces: [], isOpen: true, offsets: undefined });
        }
        return [event];
      case 'delta':
        this.#keep(event.at, event.text);
        return [event];
      case 'cite':
        return this.#cite(event);
      case 'close': {
        const text = this.#texts.get(event.at);
        if (!text) return [event];
        const settled = this.#waiting.length > 0 ? this.#settle(text) : NONE;
        text.isOpen = false;
        return settled.length > 0 ? [...settled, event] : [event];
      }
      default:
        return [event];
    }
  }

  #keep(at: number, piece: string): void {
    const text = this.#texts.get(at);
    if (!text || this.#keptLength > MAX_KEPT_LENGTH) return;
    this.#keptLength += piece.length;
    text.pieces.push(piece);
    text.offsets = undefined;
  }

  #cite(event: CiteEvent): readonly StreamEvent[] {
    if (++this.#count > MAX_CITATIONS) return unknown('too many citations');
    if (event.at === undefined) return this.#place(event, this.#textOf(event.span));
    const text = this.#texts.get(event.at);
    if (!text?.isOpen) return this.#place(event, text);
    this.#waiting.push(event);
    return NONE;
  }

  #settle(text: CitedText): readonly StreamEvent[] {
    const settled: StreamEvent[] = [];
    this.#waiting = this.#waiting.filter((event) => {
      if (event.at !== text.at) return true;
      settled.push(...this.#place(event, text));
      return false;
    });
    return settled;
  }

  /** The text in which a span of the answer begins; else the last one. */
  #textOf(span: CitedSpan | undefined): CitedText | undefined {
    let before = 0;
    let last: CitedText | undefined;
    for (const text of this.#texts.values()) {
      last = text;
      const { characters, bytes } = offsetsOf(text);
      before += span?.unit === 'bytes' ? bytes : characters;
      if (span && span.start < before) return text;
    }
    return last;
  }

  #place({ at, citation, span }: CiteEvent, text: CitedText | undefined): readonly StreamEvent[] {
    if (!text) return unknown('a citation outside a text');
    const before = this.#before(text);
    const isWhole = at !== undefined && span === undefined;
    const found = span && this.#find(span, text, at === undefined ? before : NOTHING_BEFORE);
    const offsets = offsetsOf(text);
    const [start, end] = found ?? [0, offsets.characters];
    const { url = '', title = '', quote = '' } = citation;
    const key = JSON.stringify([text.at, start, end, url, title, quote]);
    if (this.#seen.has(key)) return NONE;
    this.#seen.add(key);
    const { needsUrl, needsOpenText } = this.#limits;
    if (needsUrl && citation.url === undefined) return unknown('a citation without an address');
    if (needsOpenText && !text.isOpen) return unknown('a citation of a text that is over');
    const place: CitedPlace = {
      isExact: this.#keptLength <= MAX_KEPT_LENGTH && (isWhole || found !== undefined),
      start,
      end,
      startByte: offsets.byteAt(start),
      endByte: offsets.byteAt(end),
      text: offsets.slice(start, end),
      before,
    };
    return [{ type: 'citation', at: text.at, citation, place }];
  }

  #before({ at }: CitedText): CitedPlace['before'] {
    let characters = 0;
    let bytes = 0;
    for (const text of this.#texts.values()) {
      if (text.at === at) break;
      characters += offsetsOf(text).characters;
      bytes += offsetsOf(text).bytes;
    }
    return { characters, bytes };
  }

  /** The code points of a span in a text; undefined if they are not there, or other words are. */
  #find(
    { start, end, unit, text: words }: CitedSpan,
    text: CitedText,
    before: CitedPlace['before'],
  ): readonly [start: number, end: number] | undefined {
    const offsets = offsetsOf(text);
    const toCharacter = (offset: number) =>
      unit === 'bytes' ? offsets.characterAtByte(offset - before.bytes) : offset - before.characters;
    const from = Math.max(toCharacter(start), 0);
    const to = Math.min(toCharacter(end), offsets.characters);
    const isThere = start >= 0 && from < to && Number.isInteger(start) && Number.isInteger(end);
    if (isThere && (words === undefined || offsets.slice(from, to) === words)) return [from, to];
    // The vendor may count otherwise, such as per part of its answer.
    const unitAt = words ? offsets.text.indexOf(words) : -1;
    if (words === undefined || unitAt < 0) return undefined;
    return [offsets.characterAtUnit(unitAt), offsets.characterAtUnit(unitAt + words.length)];
  }
}

const NONE: readonly StreamEvent[] = [];
const NOTHING_BEFORE = { characters: 0, bytes: 0 };

function offsetsOf(text: CitedText): TextOffsets {
  text.offsets ??= new TextOffsets(text.pieces.join(''));
  return text.offsets;
}

function unknown(name: string): readonly StreamEvent[] {
  return [{ type: 'unknown', name }];
}
