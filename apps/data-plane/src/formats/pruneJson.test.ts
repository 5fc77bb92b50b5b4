import { expect, it } from 'vitest';
import type { JsonRecord } from './jsonFields.ts';
import { JsonPruner } from './jsonPruner.ts';
import { shape } from './jsonShape.ts';
import { pruneJson } from './pruneJson.ts';

const keeps = ({ type }: JsonRecord) => type === 'call';
const SHAPE = shape({
  id: 'value',
  usage: 'value',
  error: 'presence',
  output: { items: shape({ type: 'value', id: 'value' }), keeps },
  response: { members: shape({ usage: 'value' }) },
});

const CALLS = '[{"type":"call","id":1,"x":2},5,[],{"type":"other"},{"type":"call","type":"message"},null]';
const MEMBERS = `"id":"é\\u0041","usage":{"n":[1,{}],"s":"x"},"error":{},"output":${CALLS},"response":{"usage":2}`;
const deep = (levels: number) => '['.repeat(levels) + ']'.repeat(levels);

it.each([
  ['all members', `{${MEMBERS}}`],
  ['white space', ` \r\n\t{ "id" : "a" , "output" : [ ] }\n `],
  ['no members', '{}'],
  ['members of other types', '{"id":null,"error":null,"output":{"type":"call"},"response":[{"usage":1}]}'],
  ['repeated members', `{${MEMBERS},"id":2,"usage":null,"error":null,"output":[],"response":{},"id":3}`],
  ['repeated members of other types', `{${MEMBERS},"output":7,"response":"x"}`],
  ['escaped names', '{"\\u0069d":"a","us\\u0061ge":{"n":1},"respon\\u0073e":{"usage":2}}'],
  ['names of what every object has', '{"__proto__":{"id":1},"constructor":{"id":2},"toString":3}'],
  ['huge numbers', '{"id":1e999,"usage":{"n":123456789012345678901234567890,"m":-0,"o":1E-999}}'],
  ['nesting', `{"x":${deep(900)},"id":"a"}`],
  ['nesting without an end', `{"id":"a","x":${'['.repeat(1_900)}`],
  ['bad UTF-8', Buffer.from('{"id":"\xff\xc3","usage":{"\xe2\x82":"\xed\xa0\x80"},"x":"\xf0"}', 'latin1')],
  ['bad UTF-8 beside a string', Buffer.from('{"id":"a",\xff"usage":1}', 'latin1')],
  ['a byte order mark', '\ufeff{"id":"a"}'],
  ['lone surrogates', '{"id":"\\ud800","usage":{"a":"\\udc00\\ud800"}}'],
  ['a control character', '{"id":"a\nb","x":"\u0000","usage":1}'],
  ['a bad escape', '{"id":"a\\x","usage":1}'],
  ['what follows the object', `{${MEMBERS}}{"id":9}`],
  ['an end in the middle', `{${MEMBERS}`.slice(0, 60)],
  ['a missing comma', '{"id":"a" "usage":1}'],
  ['a comma too many', '{"id":"a","usage":1,}'],
  ['a leading zero', '{"id":01,"usage":1}'],
  ['a word', '{"id":nul,"error":nope,"usage":1}'],
  ['an array', `[{${MEMBERS}}]`],
  ['a text', '"id"'],
  ['nothing', ''],
])('reads of a short document what the pruner reads: %s', (_what, document) => {
  const bytes = Buffer.from(document);
  const pruner = new JsonPruner(SHAPE);
  pruner.push(bytes);
  expect(pruneJson(bytes, SHAPE)).toStrictEqual(pruner.result);
  // Longer documents go the other way.
  const padded = Buffer.concat([bytes, Buffer.alloc(4_096, ' ')]);
  expect(pruneJson(padded, SHAPE)).toStrictEqual(pruner.result);
});
