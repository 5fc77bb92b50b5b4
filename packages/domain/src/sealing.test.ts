import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { Sealer, seal, unseal } from './sealing.ts';

it('unseals under the same key only, and only unmodified bytes', () => {
  const key = randomBytes(32);
  const sealed = seal(key, Buffer.from('a secret'));
  expect(sealed.toString('latin1')).not.toContain('secret');
  expect(unseal(key, sealed)?.toString()).toBe('a secret');
  expect(unseal(randomBytes(32), sealed)).toBeUndefined();
  for (let at = 0; at < sealed.length; at++) {
    const changed = Buffer.from(sealed);
    changed[at] = (changed[at] ?? 0) ^ 1;
    expect(unseal(key, changed)).toBeUndefined();
  }
  expect(unseal(key, Buffer.alloc(3))).toBeUndefined();
});

it('unseals what earlier releases sealed, in the same context only', () => {
  const key = Buffer.alloc(32, 7);
  const stored = Buffer.from('fHhaVogcX5E6EWDHygcgaa23TerM1JjmSYbWntXrnFHQYsGf', 'base64');
  expect(unseal(key, stored, 'a place')?.toString()).toBe('a secret');
  expect(unseal(key, stored)).toBeUndefined();
  const withoutContext = Buffer.from('WNCAY6rdGhItXu0UrtNOoEYOFJUMnqxs8lUjGTM+RiyyhsmX', 'base64');
  expect(unseal(key, withoutContext)?.toString()).toBe('a secret');
});

it('seals equal plaintexts differently', () => {
  const key = randomBytes(32);
  expect(seal(key, Buffer.from('x'))).not.toEqual(seal(key, Buffer.from('x')));
});

it('seals in pieces of any size what is unsealed in one', () => {
  const key = randomBytes(32);
  const pieces = [0, 1, 15, 16, 17, 100_000].map((size) => randomBytes(size));
  const sealer = new Sealer(key, 'a place');
  const sealed = pieces.map((piece) => sealer.update(piece));
  const whole = Buffer.concat([sealer.iv, sealer.end(), ...sealed]);
  expect(unseal(key, whole, 'a place')).toEqual(Buffer.concat(pieces));
  expect(unseal(key, whole.subarray(0, -1), 'a place')).toBeUndefined();
});
