import { expect, it } from 'vitest';
import { droppedFields, droppedText } from './droppedFields.ts';
import type { PreparedRequest } from './preparedRequest.ts';

const loss = (path: string, verdict: 'changed' | 'dropped') => ({ path, verdict, reason: 'x', count: 1 });

it('names what was removed, dropped and changed', () => {
  const removed = [{ path: 'tools[2]', tool: 'web_search' }];
  expect(droppedText(removed, [loss('a.b', 'changed'), loss('c', 'dropped')])).toBe(
    'tools[2] web_search, a.b changed, c dropped',
  );
  expect(droppedText()).toBe('');
});

it('stays short, and takes names of any characters', () => {
  const losses = Array.from({ length: 300 }, (_, at) => loss(`é\r\n${at}${'x'.repeat(200)}`, 'dropped'));
  const text = droppedText([], losses);
  expect(text).toMatch(/^[\x20-\x7e]+ and 292 more$/);
  expect(text.length).toBeLessThan(2_048);
});

it.each([79, 80])('cuts within a character, and takes half of one, without failing: %s', (length) => {
  expect(droppedText([], [loss(`${'x'.repeat(length)}\u{1f600}`, 'dropped')])).toMatch(
    /^x+(%EF%BF%BD)? dropped$/,
  );
  expect(droppedText([], [loss('\ud83d', 'dropped')])).toBe('%EF%BF%BD dropped');
});

it('lists the same for the ledger, in characters that it can store', () => {
  const removedTools = [{ path: 'tools[2]', tool: 'web_search' }];
  const losses = Array.from({ length: 10 }, (_, at) => loss(`é${at}`, 'dropped'));
  const prepared = { modelRequest: { generation: { hard: { removedTools } } }, translation: { losses } };
  const listed = droppedFields(prepared as unknown as PreparedRequest);
  expect(listed).toEqual([
    'tools[2] web_search',
    ...Array.from({ length: 7 }, (_, at) => `é${at} dropped`),
    '3 more',
  ]);
  expect(droppedFields({ modelRequest: undefined } as unknown as PreparedRequest)).toEqual([]);
});
