import { expect, it } from 'vitest';
import { SignInLinks } from './signInLinks.ts';

const codeOf = (path: string) => new URL(path, 'http://host').searchParams.get('code') ?? '';

it('a link is taken once, and before it ends', () => {
  let nowMs = 0;
  const links = new SignInLinks(() => nowMs);
  const [one, two] = [links.create('key one'), links.create('key two')].map(codeOf);
  expect(links.take('')).toBeUndefined();
  expect(links.take(`${one}x`)).toBeUndefined();
  expect(links.take(one ?? '')).toBe('key one');
  expect(links.take(one ?? '')).toBeUndefined();
  nowMs = 15 * 60_000;
  expect(links.take(two ?? '')).toBeUndefined();
});

it('of many links only the newest ten are kept', () => {
  const links = new SignInLinks(() => 0);
  const codes = Array.from({ length: 11 }, (_, n) => codeOf(links.create(`key ${n}`)));
  expect(links.take(codes[0] ?? '')).toBeUndefined();
  expect(links.take(codes[1] ?? '')).toBe('key 1');
});
