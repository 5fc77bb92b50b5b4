import { expect, it } from 'vitest';
import { namesOne } from './objectRefusal.ts';

const objects = [
  { id: 'file-1', path: 'input[0].content[1].file_id' },
  { id: 'vs_1', path: 'tools[2].vector_store_ids[0]' },
];
const error = (fields: object) => JSON.stringify({ error: { message: 'No.', ...fields } });

it.each<[string, boolean]>([
  [error({ message: "The file 'file-1' does not exist." }), true],
  [error({ param: 'input[0].content[1].file_id' }), true],
  [error({ param: 'input.0.content.1.file_id' }), true],
  [error({ param: 'tools[2].vector_store_ids' }), true],
  [error({ code: 'file_not_found' }), true],
  [error({ type: 'not_found_error' }), true],
  ['vs_1: no such store', true],
  [error({ param: 'temperature' }), false],
  [error({ param: 'input' }), false],
  [error({ code: 'context_length_exceeded', param: 'input' }), false],
  [error({}), false],
  ['{"error":"no"}', false],
  ['[]', false],
  ['<html>', false],
  ['', false],
])('%s is about an object of the request: %s', (text, expected) => {
  expect(namesOne(text, objects)).toBe(expected);
});
