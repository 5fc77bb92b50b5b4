import type {
  BetaCitationsWebSearchResultLocation,
  BetaTextCitation,
} from '@anthropic-ai/sdk/resources/beta/messages/messages';
import { citationOf, nativeOf } from '../citations/source.ts';
import { FOREIGN_CITATION } from '../envelopeMarks.ts';
import type { Citation } from '../ir/citation.ts';
import type { StreamEvent } from '../ir/event.ts';
import { textOf } from '../json/writeJson.ts';
import { isRecord, recordsIn } from '../loss/fields.ts';

/** What only the vendor understands. */
const OPAQUE = ['encrypted_index'];
const ADDRESS = /^https?:\/\//i;

/** The citation of a block: about all of its text, since the vendor begins a block for what it cites. */
export function readCitation(at: number, value: unknown): StreamEvent {
  const wire = (isRecord(value) ? value : {}) as Partial<Record<keyof Wire, unknown>>;
  const citation = citationOf({
    url: urlIn(wire),
    title: wire.title ?? wire.document_title ?? wire.source,
    quote: wire.cited_text,
    native: nativeOf([wire], OPAQUE),
  });
  if (!citation) return { type: 'unknown', name: textOf(wire.type) || 'citation' };
  return { type: 'cite', at, citation, span: undefined };
}

/** The members of any citation. */
type Wire = {
  [Name in BetaTextCitation extends infer One ? (One extends unknown ? keyof One : never) : never]: unknown;
};

function urlIn({ url, source }: Partial<Record<keyof Wire, unknown>>): unknown {
  return url ?? (typeof source === 'string' && ADDRESS.test(source) ? source : undefined);
}

export function readCitations(at: number, citations: unknown): readonly StreamEvent[] {
  return recordsIn(citations).map((citation) => readCitation(at, citation));
}

/** As of a web search, which has no place within the source; what the vendor would get back of it is marked as ours. */
export function writeCitation({ url = '', title, quote = '' }: Citation): BetaTextCitation {
  return {
    type: 'web_search_result_location',
    url,
    title: title ?? null,
    cited_text: quote,
    encrypted_index: FOREIGN_CITATION,
  } satisfies BetaCitationsWebSearchResultLocation;
}
