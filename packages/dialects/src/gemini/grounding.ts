import type { GroundingChunk, GroundingMetadata, GroundingSupport } from '@google/genai';
import { citationOf, MAX_CITATIONS, MAX_QUOTE_LENGTH, nativeOf } from '../citations/source.ts';
import type { Citation, CitedPlace, CitedSpan, NativeCitation } from '../ir/citation.ts';
import type { CitationEvent, CiteEvent, StreamEvent } from '../ir/event.ts';
import { textOf } from '../json/writeJson.ts';
import { isRecord, recordsIn } from '../loss/fields.ts';
import { searchOf } from '../tools/webSearch.ts';

/** Of an answer. */
const MAX_QUERIES = 100;

type Wire = Readonly<Record<string, unknown>>;

/** Collects what a candidate says of its sources, which may come in several chunks, again and again. */
export class GroundingReader {
  /** Of spans of the answer. */
  #cited: StreamEvent[] = [];
  /** The sources that the last chunk named, and whether one of its spans has them. */
  #sources: readonly { readonly citation: Citation | undefined; isCited: boolean }[] = [];

  /** What the last chunk says that was searched for, and what was found. */
  #queries: readonly unknown[] = [];
  #pages: readonly unknown[] = [];

  read({ groundingMetadata, citationMetadata }: Wire): void {
    if (isRecord(groundingMetadata)) this.#readGrounding(groundingMetadata);
    if (!isRecord(citationMetadata)) return;
    for (const wire of recordsIn(citationMetadata.citations ?? citationMetadata.citationSources)) {
      const { uri: url, title } = wire;
      this.#add(citationOf({ url, title, native: nativeOf([wire]) }), spanOf(wire));
    }
  }

  /** What spans of the text so far cite. */
  take(): readonly StreamEvent[] {
    const cited = this.#cited;
    this.#cited = [];
    return cited;
  }

  /** The rest, and the sources of which no span has one. */
  end(): readonly StreamEvent[] {
    for (const { citation, isCited } of this.#sources) if (!isCited) this.#add(citation, undefined);
    return this.take();
  }

  /** The searches of the answer. The pages are those of all of them. */
  searches(): readonly StreamEvent[] {
    const last = this.#queries.length - 1;
    return this.#queries.map((query, at) => searchOf(query, at === last ? this.#pages : []));
  }

  #readGrounding({ groundingChunks, groundingSupports, webSearchQueries }: Wire): void {
    if (Array.isArray(webSearchQueries)) this.#queries = webSearchQueries.slice(0, MAX_QUERIES);
    if (Array.isArray(groundingChunks)) {
      this.#pages = recordsIn(groundingChunks).map(({ web }) => web);
      this.#sources = groundingChunks.slice(0, MAX_CITATIONS).map((chunk) => {
        return { citation: isRecord(chunk) ? sourceOf(chunk) : undefined, isCited: false };
      });
    }
    for (const { segment, groundingChunkIndices } of recordsIn(groundingSupports)) {
      const span = isRecord(segment) ? spanOf(segment) : undefined;
      const place = nativeOf([segment]);
      for (const index of Array.isArray(groundingChunkIndices) ? groundingChunkIndices : []) {
        if (this.#cited.length > MAX_CITATIONS) return;
        const source = this.#sources[Number(index)];
        if (!source) continue;
        source.isCited = true;
        this.#add(source.citation && withPlace(source.citation, place), span);
      }
    }
  }

  #add(citation: Citation | undefined, span: CitedSpan | undefined): void {
    if (this.#cited.length > MAX_CITATIONS) return;
    const event: CiteEvent | undefined = citation && { type: 'cite', at: undefined, citation, span };
    this.#cited.push(event ?? { type: 'unknown', name: 'a source without an address or a title' });
  }
}

/** A chunk has one member, which says what kind of source it is. */
function sourceOf(chunk: Wire): Citation | undefined {
  for (const kind of [
    'web',
    'retrievedContext',
    'maps',
    'image',
  ] as const satisfies (keyof GroundingChunk)[]) {
    const said = chunk[kind];
    if (!isRecord(said)) continue;
    const { uri, sourceUri, title, text: quote } = said;
    return citationOf({ url: uri ?? sourceUri, title, quote, native: nativeOf([{ kind }, said]) });
  }
  return undefined;
}

function withPlace(citation: Citation, place: NativeCitation): Citation {
  const { url, title, quote, native } = citation;
  return { url, title, quote, native: nativeOf([native, place]) };
}

/** Offsets that are 0 are left out; those of a vendor that counts per part are told apart by the words. */
function spanOf({ startIndex = 0, endIndex, text }: Wire): CitedSpan | undefined {
  const words = textOf(text) || undefined;
  const hasOffsets = typeof startIndex === 'number' && typeof endIndex === 'number';
  if (!hasOffsets && words === undefined) return undefined;
  const [start, end] = hasOffsets ? [startIndex, endIndex] : [0, 0];
  return { start, end, unit: 'bytes', text: words };
}

/** What a candidate says of its sources. The offsets are those of all of the answer's text. */
export function writeGrounding(citations: readonly CitationEvent[]): GroundingMetadata {
  const chunks: GroundingChunk[] = [];
  const indexes = new Map<string, number>();
  const supports = new Map<string, GroundingSupport & { readonly groundingChunkIndices: number[] }>();
  for (const { citation, place } of citations) {
    const { url, title, quote } = citation;
    const source = JSON.stringify([url, title, url === undefined ? quote : '']);
    const index = indexes.get(source) ?? chunks.push(writeChunk(citation)) - 1;
    indexes.set(source, index);
    if (!place.isExact) continue;
    const startIndex = place.before.bytes + place.startByte;
    const endIndex = place.before.bytes + place.endByte;
    const key = `${startIndex} ${endIndex}`;
    const support = supports.get(key) ?? {
      segment: { startIndex, endIndex, ...wordsOf(place) },
      groundingChunkIndices: [],
    };
    if (!support.groundingChunkIndices.includes(index)) support.groundingChunkIndices.push(index);
    supports.set(key, support);
  }
  return { groundingChunks: chunks, groundingSupports: [...supports.values()] };
}

/** Short ones: each of many citations may be about nearly all of the answer. The offsets say where. */
function wordsOf({ text }: CitedPlace): { text?: string } {
  return text.length <= MAX_QUOTE_LENGTH ? { text } : {};
}

/** What has no address was not found in the web. */
function writeChunk({ url, title, quote }: Citation): GroundingChunk {
  const named = title === undefined ? {} : { title };
  if (url !== undefined) return { web: { uri: url, ...named } };
  return { retrievedContext: quote === undefined ? named : { ...named, text: quote } };
}
