import { brotliDecompressSync, constants, gunzipSync, inflateSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { brotliEncoder, deflateEncoder, gzipEncoder } from './encoder.ts';

const PARTS = ['one ', 'zwei ', '三'].map((part) => Buffer.from(part));

test('the parts make one valid gzip file', () => {
  const encoder = gzipEncoder();
  const bytes = Buffer.concat([...PARTS.map((part) => encoder.push(part)), encoder.finish()]);
  expect(gunzipSync(bytes).toString()).toBe('one zwei 三');
});

test('each part can be decoded as soon as it is pushed', () => {
  const encoder = gzipEncoder();
  const bytes = Buffer.concat(PARTS.slice(0, 2).map((part) => encoder.push(part)));
  expect(gunzipSync(bytes, { finishFlush: constants.Z_SYNC_FLUSH }).toString()).toBe('one zwei ');
});

test('nothing at all is a valid gzip file too', () => {
  expect(gunzipSync(gzipEncoder().finish()).toString()).toBe('');
});

test.each([
  ['deflate', deflateEncoder, inflateSync],
  ['br', brotliEncoder, brotliDecompressSync],
] as const)('the parts make one valid stream of %s, and so does nothing at all', (_name, create, decode) => {
  const encoder = create();
  const bytes = Buffer.concat([...PARTS.map((part) => encoder.push(part)), encoder.finish()]);
  expect(decode(bytes).toString()).toBe('one zwei 三');
  expect(decode(create().finish()).toString()).toBe('');
});
