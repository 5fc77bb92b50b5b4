import type { Citation, CitedPlace, CitedSpan } from './citation.ts';
import type { Opaque } from './request.ts';

/** Why a model stopped, in no vendor's words. */
export type StopReason =
  | 'end'
  | 'length'
  | 'window'
  | 'calls'
  | 'sequence'
  | 'filter'
  | 'refusal'
  | 'pause'
  | 'other';

/**
 * An event of a streamed answer. A block opens once, gets its parts, and closes once; blocks may interleave. A stream ends with
 * one `finish` or one `error`.
 */
export type StreamEvent =
  | { readonly type: 'start'; readonly id: string; readonly created: number | undefined }
  | { readonly type: 'open'; readonly at: number; readonly block: 'text' | 'reasoning' | 'refusal' }
  | {
      readonly type: 'open';
      readonly at: number;
      readonly block: 'call';
      readonly form: 'json' | 'text';
      readonly id: string;
      readonly name: string;
    }
  | { readonly type: 'delta'; readonly at: number; readonly text: string }
  | { readonly type: 'opaque'; readonly at: number; readonly opaque: Opaque }
  | { readonly type: 'close'; readonly at: number }
  /** A citation as the vendor says it. */
  | {
      readonly type: 'cite';
      /** The block that it is in, of which it is about all if there is no span; undefined if the span is one of the answer's text. */
      readonly at: number | undefined;
      readonly citation: Citation;
      readonly span: CitedSpan | undefined;
    }
  /** A citation as it is written: no reader has it. It may come after its block. */
  | {
      readonly type: 'citation';
      readonly at: number;
      readonly citation: Citation;
      readonly place: CitedPlace;
    }
  /** A search of the web that the vendor ran. It reaches a writer where no block is open. */
  | { readonly type: 'search'; readonly query: string; readonly results: readonly SearchResult[] }
  | {
      readonly type: 'finish';
      readonly stop: StopReason;
      /** The vendor's own word; the caller gets it beside that of its dialect. */
      readonly native: string;
      /** The sequence that stopped it. */
      readonly sequence: string | undefined;
      /** Part of the output tokens; undefined if it is not reported. */
      readonly reasoningTokens: number | undefined;
    }
  | { readonly type: 'error'; readonly error: VendorError }
  /** Something that no other dialect has. It is counted. */
  | { readonly type: 'unknown'; readonly name: string };

/** A page that a search found. */
interface SearchResult {
  readonly url: string;
  /** Empty if it has none. */
  readonly title: string;
}

export type OpenEvent = Extract<StreamEvent, { type: 'open' }>;
export type CiteEvent = Extract<StreamEvent, { type: 'cite' }>;
export type CitationEvent = Extract<StreamEvent, { type: 'citation' }>;
export type SearchEvent = Extract<StreamEvent, { type: 'search' }>;
export type FinishEvent = Extract<StreamEvent, { type: 'finish' }>;

/** What a vendor reports as an error. */
export interface VendorError {
  /** The HTTP status that it has, or would have had. */
  readonly status: number;
  /** The vendor's own word for it; empty if it has none. */
  readonly code: string;
  readonly message: string;
}

/** Reads the data of a vendor's events, in their order. */
export interface StreamReader {
  push(data: string): readonly StreamEvent[];
  /** After the vendor's last byte. */
  end(): readonly StreamEvent[];
}

/** Writes events for a caller, as the text of server-sent events. */
export interface StreamWriter {
  write(event: StreamEvent): string;
  /** The JSON of the whole answer, once it has ended well, in formats that repeat it then. */
  readonly answer?: string | undefined;
  /** What it keeps until later; undefined: nothing ever. */
  readonly heldBytes?: number;
}
