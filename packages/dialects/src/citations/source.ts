import type { Citation, NativeCitation } from '../ir/citation.ts';
import { beginning } from '../loss/beginning.ts';
import { isRecord } from '../loss/fields.ts';

/** More of an answer's citations are counted, not passed on. */
export const MAX_CITATIONS = 1_000;
/** The end of a longer address can't be left out, so it is no address. */
const MAX_URL_LENGTH = 2_048;
const MAX_TITLE_LENGTH = 512;
export const MAX_QUOTE_LENGTH = 4_096;
const MAX_NATIVE_MEMBERS = 16;
const MAX_NATIVE_LENGTH = 1_024;

/** What becomes of citations that a caller repeats: another vendor's model can't have made them. */
export const EARLIER_CITATIONS = 'what an earlier answer cites is not sent';

interface Source {
  readonly url?: unknown;
  readonly title?: unknown;
  readonly quote?: unknown;
  readonly native: NativeCitation;
}

/** A citation, of what a vendor says of its source; undefined if that is nothing that a caller could name. */
export function citationOf({ url, title, quote, native }: Source): Citation | undefined {
  const address = textIn(url);
  const citation: Citation = {
    url: address !== undefined && address.length <= MAX_URL_LENGTH ? address : undefined,
    title: shortened(title, MAX_TITLE_LENGTH),
    quote: shortened(quote, MAX_QUOTE_LENGTH),
    native,
  };
  return citation.url === undefined && citation.title === undefined ? undefined : citation;
}

/** The scalars of a vendor's objects, of which there are few: what is nested is the vendor's own business. */
export function nativeOf(objects: readonly unknown[], opaque: readonly string[] = []): NativeCitation {
  const native: Record<string, string | number | boolean | null> = Object.create(null);
  let left = MAX_NATIVE_MEMBERS;
  for (const object of objects) {
    if (!isRecord(object)) continue;
    for (const name in object) {
      const value = object[name];
      if (opaque.includes(name) || (typeof value === 'object' && value !== null)) continue;
      if (left-- === 0) return native;
      native[beginning(name, MAX_TITLE_LENGTH)] =
        typeof value === 'string' ? beginning(value, MAX_NATIVE_LENGTH) : (value as number | boolean | null);
    }
  }
  return native;
}

function textIn(value: unknown): string | undefined {
  return typeof value === 'string' && value !== '' ? value : undefined;
}

function shortened(value: unknown, length: number): string | undefined {
  const text = textIn(value);
  return text === undefined ? undefined : beginning(text, length);
}
