import { randomBytes } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { createSealer, KEK_BYTES } from './envelope.ts';

const KEK = randomBytes(KEK_BYTES);
const sealer = createSealer({ current: KEK, previous: [] });

describe('a sealed secret', () => {
  it('opens to its plaintext, and is not readable without', () => {
    const sealed = sealer.seal('sk-vendor-secret', 'con_1');
    expect(sealed.bytes.includes('vendor')).toBe(false);
    expect(sealer.open(sealed, 'con_1')).toBe('sk-vendor-secret');
    // Each secret has its own data key and IV, so equal secrets differ when sealed.
    expect(sealer.seal('sk-vendor-secret', 'con_1').bytes.equals(sealed.bytes)).toBe(false);
  });

  it('opens if an earlier release sealed it', () => {
    const bytes = Buffer.from(
      'AZgsFfyCG3Aa5ltpJvFXycOApcN1YHqNtit3i2kApKx2knVEXtGXcB/fLoTsfqbwz8m75SgD0M+kYSAJ7nUR3OoAFEIOUvy/YEDGTNYpkd4m10Z792EO1stIOMwVk3lMU70i0dncp/kR',
      'base64',
    );
    const opener = createSealer({ current: Buffer.alloc(KEK_BYTES, 7), previous: [] });
    expect(opener.open({ bytes, kekId: 'e1f05fa8a6c4d24d' }, 'con_1')).toBe('sk-vendor-secret');
  });

  it('opens only in the place it was sealed for, and only unmodified', () => {
    const sealed = sealer.seal('secret', 'con_1');
    expect(() => sealer.open(sealed, 'con_2')).toThrow();
    for (let index = 0; index < sealed.bytes.length; index++) {
      const bytes = Buffer.from(sealed.bytes);
      bytes.writeUInt8(bytes.readUInt8(index) ^ 1, index);
      expect(() => sealer.open({ ...sealed, bytes }, 'con_1')).toThrow();
    }
    expect(() => sealer.open({ ...sealed, bytes: sealed.bytes.subarray(0, 20) }, 'con_1')).toThrow();
  });

  it('stays closed without its key-encryption key', () => {
    const sealed = sealer.seal('secret', 'con_1');
    const others = createSealer({ current: randomBytes(KEK_BYTES), previous: [] });
    expect(others.open(sealed, 'con_1')).toBeUndefined();
    expect(() => others.open({ ...sealed, kekId: others.currentKekId ?? '' }, 'con_1')).toThrow();
    expect(() => createSealer({ current: undefined, previous: [KEK] }).seal('secret', 'con_1')).toThrow();
  });

  it('moves to a new key-encryption key, and the old one then opens it no more', () => {
    const sealed = sealer.seal('secret', 'con_1');
    const next = randomBytes(KEK_BYTES);
    const rotated = createSealer({ current: next, previous: [KEK] });
    expect(rotated.open(sealed, 'con_1')).toBe('secret');
    const resealed = rotated.reseal(sealed, 'con_1');
    if (!resealed) throw new Error('it was not resealed');
    expect(resealed.kekId).toBe(rotated.currentKekId);
    expect(createSealer({ current: next, previous: [] }).open(resealed, 'con_1')).toBe('secret');
    expect(sealer.open(resealed, 'con_1')).toBeUndefined();
    expect(createSealer({ current: next, previous: [] }).reseal(sealed, 'con_1')).toBeUndefined();
  });
});
