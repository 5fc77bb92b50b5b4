import { KeyWatch } from '@weighbridge/dialects';
import { describe, expect, it } from 'vitest';
import { cursorOver, keepLongValues } from './longValues.ts';
import { scanObject } from './scanJson.ts';

const ITEMS = 400_000;
const INNER = `[${'{"a":1},'.repeat(ITEMS)}{"shell":[]}]`;
const TEXT = `{"tools":[{"type":"x","files":${INNER}}],"input":"a"}`;
const START = TEXT.indexOf(INNER);

/** How many values a cursor counts that skips the inner list. */
function skippedIn(bytes: Buffer): number {
  const cursor = cursorOver(bytes);
  cursor.at = START;
  cursor.skipValue();
  expect(cursor.at).toBe(START + INNER.length);
  return cursor.skipped;
}

describe('the long values of a body', () => {
  it('are gone over once, by all cursors over it', () => {
    const bytes = Buffer.from(TEXT);
    expect(skippedIn(bytes)).toBeGreaterThan(ITEMS);
    keepLongValues(bytes);
    scanObject(bytes, new Set(['tools']));
    expect(skippedIn(bytes)).toBe(0);
    expect(skippedIn(Buffer.from(TEXT))).toBeGreaterThan(ITEMS);
  });

  it('are read again where each key is to be seen', () => {
    const bytes = Buffer.from(TEXT);
    keepLongValues(bytes);
    scanObject(bytes, new Set(['tools']));
    const watch = new KeyWatch(['shell']);
    const spans = scanObject(bytes, new Set(['tools', 'input']), { watch });
    expect(watch.isSeen).toBe(true);
    expect(bytes.toString('utf8', spans.get('input')?.start, spans.get('input')?.end)).toBe('"a"');
  });

  it('end where they end, however they are nested', () => {
    const deep = `{"a":${'[['.repeat(40)}${'{"k":[1,2]},'.repeat(150_000)}1${']]'.repeat(40)},"b":{"c":${INNER}}}`;
    const bytes = Buffer.from(deep);
    keepLongValues(bytes);
    const first = scanObject(bytes, new Set(['a', 'b']));
    expect(scanObject(bytes, new Set(['a', 'b']))).toEqual(first);
    for (const { start, end } of first.values()) {
      expect(() => JSON.parse(deep.slice(start, end))).not.toThrow();
      for (let at = start; at < start + 100; at++) {
        if (deep[at] !== '[' && deep[at] !== '{') continue;
        const [known, fresh] = [cursorOver(bytes), cursorOver(Buffer.from(deep))];
        known.at = at;
        fresh.at = at;
        known.skipValue();
        fresh.skipValue();
        expect(known.at).toBe(fresh.at);
      }
    }
  });
});
