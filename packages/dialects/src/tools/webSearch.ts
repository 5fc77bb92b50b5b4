import type { SearchEvent } from '../ir/event.ts';
import { textOf } from '../json/writeJson.ts';
import { beginning } from '../loss/beginning.ts';
import { recordsIn } from '../loss/fields.ts';

const MAX_QUERY_LENGTH = 2_000;
const MAX_RESULTS = 100;

/** A search by what a vendor says of it: its pages are those entries of a list that have an address. */
export function searchOf(query: unknown, pages: unknown): SearchEvent {
  const results = recordsIn(pages)
    .slice(0, MAX_RESULTS)
    .map(({ url, uri, title }) => ({ url: textOf(url ?? uri), title: textOf(title) }))
    .filter(({ url }) => url !== '');
  return { type: 'search', query: beginning(textOf(query), MAX_QUERY_LENGTH), results };
}
