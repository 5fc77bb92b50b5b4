import { TypeID } from 'typeid-js';
import { describe, expect, it, vi } from 'vitest';
import { idTimeMs, isId, newId, newUuid } from './ids.ts';

describe('ids', () => {
  it('are valid for the TypeID library: a prefix and a UUIDv7, unique, in the order of time', () => {
    const ids = Array.from({ length: 10_000 }, () => newId('req'));
    expect(new Set(ids).size).toBe(ids.length);
    expect([...ids].sort()).toEqual(ids);
    for (const id of ids.slice(0, 100)) {
      expect(id).toMatch(/^req_[0-7][0-9a-hjkmnp-tv-z]{25}$/);
      const read = TypeID.fromString(id);
      expect(read.getType()).toBe('req');
      expect(TypeID.fromUUID('req', read.toUUID()).toString()).toBe(id);
      expect(read.toUUID()).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab]/);
    }
  });

  it('are UUIDv7s without a prefix too', () => {
    const uuids = Array.from({ length: 20_000 }, newUuid);
    expect(new Set(uuids).size).toBe(uuids.length);
    expect([...uuids].sort()).toEqual(uuids);
    for (const uuid of uuids) {
      expect(uuid).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    }
    // No part of the random bits stays the same.
    for (let at = 20; at < 36; at++) {
      if (at !== 23) expect(new Set(uuids.map((uuid) => uuid[at])).size).toBe(16);
    }
  });

  it('contain the time of their creation', () => {
    const before = Date.now();
    const madeAt = idTimeMs(newId('key'));
    expect(madeAt).toBeGreaterThanOrEqual(before);
    // An id that follows others in the same millisecond may be ahead of the clock.
    expect(madeAt).toBeLessThanOrEqual(Date.now() + 1_000);
  });

  it('tell a time even if a client made them up, so that no UUID has their bits', () => {
    const made = `req_0${'1'.repeat(9)}${'z'.repeat(16)}`;
    expect(isId('req', made)).toBe(true);
    expect(idTimeMs(made)).toBe(Number.parseInt('1'.repeat(9), 32));
  });

  it('follow a clock that is set back', () => {
    const clock = vi.spyOn(Date, 'now');
    const madeAt = (nowMs: number) => {
      clock.mockReturnValue(nowMs);
      return [idTimeMs(newId('req')), idTimeMs(newId('req'))];
    };
    try {
      const now = new Date('2031-05-01T00:00:00Z').getTime();
      const wrong = now + 100 * 86_400_000;
      expect(madeAt(wrong)).toEqual([wrong, wrong]);
      expect(madeAt(now)).toEqual([now, now]);
      // Clocks are adjusted by a little all the time: then the order is kept.
      expect(madeAt(now - 1_000)).toEqual([now, now]);
    } finally {
      clock.mockRestore();
    }
    expect(Math.abs(idTimeMs(newId('req')) - Date.now())).toBeLessThan(60_000);
  });

  it('have one type only', () => {
    expect(isId('req', newId('req'))).toBe(true);
    expect(isId('key', newId('req'))).toBe(false);
  });
});
