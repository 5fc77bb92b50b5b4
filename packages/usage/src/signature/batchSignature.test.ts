import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { newProducerKey, type ProducerKey, UsageBatchSchema } from '@weighbridge/contracts';
import { describe, expect, it } from 'vitest';
import { readUsageBatch } from '../event/readUsageBatch.ts';
import { batchProof, signBatch } from './batchSignature.ts';

const { key } = newProducerKey();
const { key: otherKey } = newProducerKey();
const EPOCH = '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60';
const batch = {
  producerId: key.producerId,
  epoch: EPOCH,
  shard: 2,
  firstN: 300n,
  events: [Buffer.from('one'), Buffer.alloc(0), Buffer.from('three')],
};
const proofOf = (payload: Uint8Array) => batchProof(payload, fromBinary(UsageBatchSchema, payload));

describe('a signed batch', () => {
  const payload = signBatch(batch, key);

  it('proves its producer, by either reader, and is read as any batch', () => {
    const fast = readUsageBatch(payload);
    expect(fast && batchProof(payload, fast)).toBe('signed');
    expect(proofOf(payload)).toBe('signed');
    expect(fast).toMatchObject(batch);
  });

  it.each([
    [batch],
    [{ ...batch, events: [], shard: 0, firstN: 0n }],
    [
      {
        ...batch,
        producerId: '',
        epoch: 'é',
        firstN: 2n ** 62n + 1n,
        events: [Buffer.alloc(200_000, 7), Buffer.alloc(1)],
      },
    ],
    [{ ...batch, firstN: 2n ** 40n, events: Array.from({ length: 300 }, (_, at) => Buffer.alloc(at, at)) }],
  ])('has the bytes that the library writes', (fields) => {
    const { publicKey } = key;
    const library = (more: object) =>
      toBinary(UsageBatchSchema, create(UsageBatchSchema, { ...fields, ...more }));
    const signed = signBatch(fields, key);
    expect(Buffer.from(signed.subarray(0, -66)).equals(library({ publicKey }))).toBe(true);
    expect(proofOf(signed) === 'signed').toBe(fields.producerId !== '');
    expect(Buffer.from(signBatch(fields, undefined)).equals(library({}))).toBe(true);
  });

  it('proves nothing once any byte of it is changed, removed or added', () => {
    for (let at = 0; at < payload.length; at++) {
      const changed = Buffer.from(payload);
      changed[at] = (changed[at] ?? 0) ^ 1;
      const fields = readUsageBatch(changed);
      if (fields) expect(batchProof(changed, fields), `byte ${at}`).not.toBe('signed');
    }
    const fields = fromBinary(UsageBatchSchema, payload);
    expect(batchProof(payload.subarray(1), fields)).toBe('forged');
    expect(batchProof(Buffer.concat([payload, Buffer.from([0x18, 1])]), fields)).toBe('forged');
    expect(batchProof(new Uint8Array(0), fields)).toBe('forged');
  });

  it("is forged under another producer's key, with that key or the named one's", () => {
    expect(proofOf(signBatch(batch, otherKey))).toBe('forged');
    const mixed: ProducerKey = { ...otherKey, publicKey: key.publicKey };
    expect(proofOf(signBatch(batch, mixed))).toBe('forged');
    expect(proofOf(signBatch({ ...batch, producerId: otherKey.producerId }, key))).toBe('forged');
    expect(proofOf(signBatch(batch, { ...key, publicKey: Buffer.alloc(32, 0xff) }))).toBe('forged');
  });

  it('says that it is unsigned only without a key and a signature', () => {
    expect(proofOf(signBatch(batch, undefined))).toBe('unsigned');
    expect(proofOf(signBatch({ ...batch, producerId: EPOCH }, undefined))).toBe('unsigned');
    expect(proofOf(signBatch({ ...batch, producerId: EPOCH }, key))).toBe('forged');
  });

  it('proves nothing for another purpose', () => {
    for (const [signedFor, readAs] of [
      ['usage', 'refusals'],
      ['refusals', 'usage'],
    ] as const) {
      const sent = signBatch(batch, key, signedFor);
      expect(batchProof(sent, fromBinary(UsageBatchSchema, sent), readAs)).toBe('forged');
      expect(batchProof(sent, fromBinary(UsageBatchSchema, sent), signedFor)).toBe('signed');
    }
  });

  it('is still read by a release that knows no signatures', () => {
    const { publicKey: _, signature: __, ...known } = fromBinary(UsageBatchSchema, payload);
    expect(
      toBinary(UsageBatchSchema, { ...known, publicKey: new Uint8Array(), signature: new Uint8Array() }),
    ).toEqual(new Uint8Array(signBatch(batch, undefined)));
  });
});
