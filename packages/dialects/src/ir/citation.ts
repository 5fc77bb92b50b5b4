/** The vendor's own account of a citation: its scalars, without what only the vendor understands. */
export type NativeCitation = Readonly<Record<string, string | number | boolean | null>>;

/** A source that an answer names, in no vendor's words. It has an address or a title, or both. */
export interface Citation {
  readonly url: string | undefined;
  readonly title: string | undefined;
  /** Words of the source. */
  readonly quote: string | undefined;
  readonly native: NativeCitation;
}

/** Where an answer cites, as its vendor says it. The end is exclusive. */
export interface CitedSpan {
  readonly start: number;
  readonly end: number;
  /** `characters` are code points, `bytes` those of UTF-8. */
  readonly unit: 'characters' | 'bytes';
  /** The words there, if the vendor repeats them. */
  readonly text: string | undefined;
}

/** Where in the text of its block an answer cites. Ends are exclusive. */
export interface CitedPlace {
  /** False if the vendor does not say where: then it is all of the text so far. */
  readonly isExact: boolean;
  /** Code points. */
  readonly start: number;
  readonly end: number;
  readonly startByte: number;
  readonly endByte: number;
  /** The words there. */
  readonly text: string;
  /** How much text of the answer is in the blocks before. */
  readonly before: { readonly characters: number; readonly bytes: number };
}
