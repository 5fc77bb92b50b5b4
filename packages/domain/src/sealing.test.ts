import { randomBytes } from 'node:crypto';
import { expect, it } from 'vitest';
import { seal, unseal } from './sealing.ts';

it('what is sealed comes back under the same key, and under no other, and not when a bit was changed', () => {
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

it('the same is never sealed the same twice', () => {
  const key = randomBytes(32);
  expect(seal(key, Buffer.from('x'))).not.toEqual(seal(key, Buffer.from('x')));
});
