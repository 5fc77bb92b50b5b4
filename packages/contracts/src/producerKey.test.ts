import { describe, expect, it } from 'vitest';
import { isSigningProducer, newProducerKey, readProducerKey } from './producerKey.ts';

const { key, text } = newProducerKey();
const { key: otherKey } = newProducerKey();
const EPOCH = '0198e7b1-6f3a-7c55-8d1e-4f2a9b3c7d60';

describe('a producer', () => {
  it('has an id that is a hash of its key, and the same one wherever its key is read', () => {
    expect(key.producerId).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    expect(isSigningProducer(key.producerId)).toBe(true);
    expect(isSigningProducer(EPOCH)).toBe(false);
    expect(readProducerKey(text)).toMatchObject({ producerId: key.producerId, publicKey: key.publicKey });
    expect(otherKey.producerId).not.toBe(key.producerId);
  });

  it.each(['', 'no key', text.slice(0, 60), text.replace('PRIVATE', 'PUBLIC')])(
    'has no key in %j, and says nothing of it',
    (broken) => expect(readProducerKey(broken)).toBeUndefined(),
  );
});
