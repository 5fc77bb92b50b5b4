import { expect, it } from 'vitest';
import { JsonCursor } from './jsonCursor.ts';
import { KeyWatch } from './keyWatch.ts';

/** What a scan of a text notices. */
function noticed(text: string): { isSeen: boolean; mayBeMarked: boolean } {
  const watch = new KeyWatch(['file_id', 'container'], {
    keys: ['signature', 'data'],
    prefix: Buffer.from('wb1.'),
  });
  watch.isSeen = true;
  watch.clear();
  new JsonCursor(Buffer.from(text), watch).skipValue();
  const { isSeen, mayBeMarked } = watch;
  return { isSeen, mayBeMarked };
}

it.each(['{"file_id":1}', '{"a":[{"FILE_ID":1}]}', '{"a":{"container":{}}}'])('sees a name: %s', (text) => {
  expect(noticed(text)).toEqual({ isSeen: true, mayBeMarked: false });
});

it.each([
  '{"signature":"wb1.x"}',
  '{"a":[{"data" :\n "wb1."}]}',
  '{"signature":"a","b":{"signature":"wb1.x"}}',
])('sees a marked value: %s', (text) => {
  expect(noticed(text)).toEqual({ isSeen: false, mayBeMarked: true });
});

it.each([
  '{"signature":"wb1"}',
  '{"signature":["wb1.x"]}',
  '{"text":"wb1.x"}',
  '{"a":"\\"signature\\":\\"wb1.x\\""}',
  '{"file_ids":1,"datas":"wb1.x"}',
  '{"signature":null}',
])('passes over anything else: %s', (text) => {
  expect(noticed(text)).toEqual({ isSeen: false, mayBeMarked: false });
});

it('takes a key with escapes for any', () => {
  expect(noticed('{"\\u0073ignature":"x"}')).toEqual({ isSeen: true, mayBeMarked: true });
});
