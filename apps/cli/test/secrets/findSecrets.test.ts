import { expect, it } from 'vitest';
import { findSecrets } from './findSecrets.ts';

const SECRET = 'sk-svc-0123456789abcdefghijklmnopqrstuvwxyz+/';
const found = (text: string | Buffer) =>
  findSecrets({ it: SECRET }, [{ where: 'there', bytes: Buffer.from(text as string) }]);

it('a secret is found in every encoding', () => {
  const written = [
    SECRET,
    `{"authorization":"Bearer ${SECRET}"}`,
    SECRET.slice(10, 35),
    Buffer.from(SECRET).toString('hex'),
    ...['', 'a', 'ab', 'abc'].flatMap((before) => [
      Buffer.from(`${before}${SECRET} and more`).toString('base64'),
      Buffer.from(`${before}${SECRET} and more`).toString('base64url'),
    ]),
    encodeURIComponent(SECRET),
    Buffer.concat([Buffer.alloc(100, 0xff), Buffer.from(SECRET)]),
  ];
  for (const one of written) expect(found(one), String(one)).toEqual(['it in there']);
});

it('its hint does not count, nor does a similar text', () => {
  expect(found('sk-svc-0123…z+/')).toEqual([]);
  expect(found(SECRET.toUpperCase())).toEqual([]);
  expect(found('')).toEqual([]);
});

it('a secret that is too short is refused', () => {
  expect(() => findSecrets({ it: 'short' }, [])).toThrow('too short');
});
