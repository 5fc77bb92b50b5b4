import { describe, expect, it } from 'vitest';
import { bearerToken, isWellFormedToken, keyHint, mintToken } from './keyToken.ts';

describe('key token', () => {
  it('is sk-svc- and 49 base62 characters, and unique', () => {
    const tokens = Array.from({ length: 100 }, mintToken);
    for (const token of tokens) expect(token).toMatch(/^sk-svc-[0-9A-Za-z]{49}$/);
    expect(new Set(tokens).size).toBe(100);
  });

  it('is rejected when any one character is mistyped', () => {
    const token = mintToken();
    for (let i = 'sk-svc-'.length; i < token.length; i++) {
      const other = token[i] === 'a' ? 'b' : 'a';
      expect(isWellFormedToken(token.slice(0, i) + other + token.slice(i + 1))).toBe(false);
    }
    expect(isWellFormedToken(token)).toBe(true);
  });

  it('may be chosen by an operator, of at least 32 safe characters', () => {
    expect(isWellFormedToken(`sk-svc-${'a-_Z'.repeat(8)}`)).toBe(true);
    expect(isWellFormedToken(`sk-svc-${'a'.repeat(31)}`)).toBe(false);
    expect(isWellFormedToken(`sk-svc-${'a'.repeat(40)}%`)).toBe(false);
    expect(isWellFormedToken(`sk-other-${'a'.repeat(40)}`)).toBe(false);
  });

  it('has a hint of four characters at each end', () => {
    expect(keyHint(`sk-svc-ABCD${'x'.repeat(41)}WXYZ`)).toBe('sk-svc-ABCD…WXYZ');
  });

  it('is read from a Bearer header, with the scheme in any case', () => {
    expect(bearerToken('Bearer abc')).toBe('abc');
    expect(bearerToken('bearer  abc ')).toBe('abc');
    for (const other of [undefined, '', 'Basic abc', 'Bearer', 'Bearer a b'])
      expect(bearerToken(other)).toBeUndefined();
  });
});
