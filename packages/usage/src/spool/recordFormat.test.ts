import { MAX_USAGE_SHARDS, USAGE_SHARDS } from '@weighbridge/contracts';
import { newUuid, seededRandom } from '@weighbridge/domain';
import { expect, it } from 'vitest';
import {
  decodeAck,
  decodeHeader,
  encodeAck,
  encodeHeader,
  epochSeed,
  headerBytes,
  isIntact,
  MAX_HEADER_BYTES,
} from './recordFormat.ts';

const random = seededRandom(1);
const numbers = (shards: number) =>
  Array.from({ length: shards }, () => BigInt(Math.floor(random() * Number.MAX_SAFE_INTEGER)));

it('a header and an ack are read back with all of their shards, whatever their number', () => {
  for (let shards = 1; shards <= MAX_USAGE_SHARDS; shards++) {
    const header = {
      producerId: newUuid(),
      epoch: newUuid(),
      previousBytes: Math.floor(random() * 2 ** 40),
      copies: shards * 7,
      lastN: numbers(shards),
      ackedN: numbers(shards),
    };
    const seed = epochSeed(header.epoch);
    const record = encodeHeader(seed, header);
    expect(decodeHeader(record)).toEqual(header);
    expect([isIntact(record, seed), record.length]).toEqual([true, headerBytes(shards)]);
    expect(record.length).toBeLessThanOrEqual(MAX_HEADER_BYTES);
    expect(decodeAck(encodeAck(seed, header.ackedN))).toEqual(header.ackedN);
  }
});

it('a header of four shards is that of release 0.1.0', () => {
  const [producerId, epoch] = [
    '11111111-2222-4333-8444-555555555555',
    '66666666-7777-4888-8999-aaaaaaaaaaaa',
  ];
  const header = {
    producerId,
    epoch,
    previousBytes: 258,
    copies: 3,
    lastN: [1n, 2n, 3n, 4n],
    ackedN: [0n, 1n, 2n, 3n],
  };
  expect(header.lastN).toHaveLength(USAGE_SHARDS);
  const numbersOf = (...all: number[]) =>
    all.map((n) => `${n.toString(16).padStart(2, '0')}00000000000000`).join('');
  const text = (id: string) => `24${Buffer.from(id).toString('hex')}`;
  expect(encodeHeader(epochSeed(epoch), header).toString('hex').slice(16)).toBe(
    `0101${text(producerId)}${text(epoch)}020100000000000003000000${numbersOf(1, 2, 3, 4, 0, 1, 2, 3)}`,
  );
});
