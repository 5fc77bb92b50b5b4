import { describe, expect, it } from 'vitest';
import type { Opaque } from '../ir/request.ts';
import { isIssuedBy, joinEnvelopes, readOpaque, readOpaques, type SealScope, sealOpaque } from './seal.ts';

const SCOPE: SealScope = { key: Buffer.alloc(32, 1), principal: 'ada' };
const OPAQUE: Opaque = { owner: 'anthropic', kind: 'signature', data: 'a.b\n.c', id: 'rs.1' };

describe('an envelope', () => {
  it('returns the value, its owner and the reasoning', () => {
    const read = readOpaque(sealOpaque(SCOPE, 'con_1', OPAQUE, 'thought.é'), 'openai', 'encrypted');
    expect(read).toMatchObject(OPAQUE);
    expect(read?.envelope?.text).toBe('thought.é');
  });

  it('is valid for its account, its principal and its key only', () => {
    const read = readOpaque(sealOpaque(SCOPE, 'con_1', OPAQUE), 'openai', 'encrypted') as Opaque;
    expect(isIssuedBy(SCOPE, 'con_1', read)).toBe(true);
    expect(isIssuedBy(SCOPE, 'con_2', read)).toBe(false);
    expect(isIssuedBy({ ...SCOPE, principal: 'eve' }, 'con_1', read)).toBe(false);
    expect(isIssuedBy({ ...SCOPE, key: Buffer.alloc(32, 2) }, 'con_1', read)).toBe(false);
    // The end of one field must not pass for the beginning of the next.
    expect(isIssuedBy({ ...SCOPE, principal: 'ada.con' }, '_1', read)).toBe(false);
  });

  it('is valid with every byte unchanged only', () => {
    const sealed = sealOpaque(SCOPE, 'con_1', OPAQUE, 'text');
    for (let at = 4; at < sealed.length; at++) {
      const changed = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
      const read = readOpaque(changed, 'openai', 'encrypted');
      // Base64 ignores the last bits of a field: then what is read is what was sealed.
      const isSame = read?.owner === OPAQUE.owner && read.id === OPAQUE.id && read.data === OPAQUE.data;
      if (!isSame || read.envelope?.text !== 'text') {
        expect(read !== undefined && isIssuedBy(SCOPE, 'con_1', read)).toBe(false);
      }
    }
  });

  it('is damaged without all of its fields, and is no envelope without its beginning', () => {
    expect(readOpaque('wb1.a.b.c', 'openai', 'encrypted')).toBeUndefined();
    expect(readOpaque('wb1.mac.owner.x.id.text.data', 'openai', 'encrypted')).toBeUndefined();
    const own = readOpaque('c2ln', 'openai', 'encrypted') as Opaque;
    expect(own).toEqual({ owner: 'openai', kind: 'encrypted', data: 'c2ln', id: '' });
    expect(isIssuedBy(SCOPE, 'con_1', own)).toBe(false);
  });

  it('can be one of several in one value', () => {
    const sealed = [OPAQUE, { ...OPAQUE, data: 'second' }].map((opaque) =>
      sealOpaque(SCOPE, 'con_1', opaque),
    );
    const read = readOpaques(joinEnvelopes([...sealed, 'wb1.damaged']), 'google', 'thought');
    expect(read.map(({ data }) => data)).toEqual([OPAQUE.data, 'second']);
    expect(read.every((opaque) => isIssuedBy(SCOPE, 'con_1', opaque))).toBe(true);
  });
});
