import { CLOSE_OBJECT, COMMA, type Span } from '@weighbridge/dialects';
import { cursorOver } from './longValues.ts';

/** What to cut out of a JSON object, so that it lacks these fields: spans that do not overlap. */
export function memberCuts(bytes: Buffer, names: ReadonlySet<string>): Span[] {
  const cursor = cursorOver(bytes);
  const cuts: Span[] = [];
  cursor.space();
  cursor.at++;
  cursor.space();
  let previousEnd = cursor.at;
  let hasKept = false;
  while (cursor.peek() !== CLOSE_OBJECT) {
    const start = cursor.at;
    const isCut = names.has(cursor.key());
    cursor.skipValue();
    const end = cursor.at;
    cursor.space();
    const hasNext = cursor.peek() === COMMA;
    if (hasNext) {
      cursor.at++;
      cursor.space();
    }
    if (!isCut) hasKept = true;
    else if (hasKept) cuts.push({ start: previousEnd, end });
    else cuts.push({ start, end: hasNext ? cursor.at : end });
    previousEnd = end;
  }
  return cuts;
}
