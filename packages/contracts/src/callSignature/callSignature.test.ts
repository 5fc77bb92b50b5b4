import { create, toBinary } from '@bufbuild/protobuf';
import { Metadata } from '@grpc/grpc-js';
import { describe, expect, it } from 'vitest';
import {
  ControlService,
  LeaseRequestSchema,
  ProxyStateSchema,
  RecordResponseRequestSchema,
  WatchRequestSchema,
} from '../gen/weighbridge/v1/control_pb.ts';
import { pathOf } from '../grpc.ts';
import { newProducerKey } from '../producerKey.ts';
import { signCall, signerOf } from './callSignature.ts';
import { canNameProducers, namedProducers } from './namedProducers.ts';

const LEASE = pathOf(ControlService.method.lease);
const { key } = newProducerKey();
const request = toBinary(
  LeaseRequestSchema,
  create(LeaseRequestSchema, { producerId: key.producerId, epoch: 'e' }),
);

function signed(path = LEASE, bytes = request): Metadata {
  const metadata = new Metadata();
  signCall(metadata, path, bytes, key);
  return metadata;
}

describe('the signature of a call', () => {
  it('names its producer', () => {
    expect(signerOf(signed(), LEASE, request)).toBe(key.producerId);
  });

  it('proves nothing of another method, of other bytes, without a proof, or with a damaged one', () => {
    const other = toBinary(
      LeaseRequestSchema,
      create(LeaseRequestSchema, { producerId: key.producerId, epoch: 'f' }),
    );
    expect(signerOf(signed(pathOf(ControlService.method.closeEpoch)), LEASE, request)).toBeUndefined();
    expect(signerOf(signed(LEASE, other), LEASE, request)).toBeUndefined();
    expect(signerOf(new Metadata(), LEASE, request)).toBeUndefined();
    const [proof] = signed().get('weighbridge-proof-bin') as [Buffer];
    for (let at = 0; at < proof.length; at++) {
      const damaged = Buffer.from(proof);
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      const metadata = new Metadata();
      metadata.set('weighbridge-proof-bin', damaged);
      expect(signerOf(metadata, LEASE, request)).not.toBe(key.producerId);
    }
    for (const length of [0, 32, 95, 97]) {
      const metadata = new Metadata();
      metadata.set('weighbridge-proof-bin', Buffer.alloc(length));
      expect(signerOf(metadata, LEASE, request)).toBeUndefined();
    }
  });
});

describe('the producers that a message names', () => {
  it('are found at any depth, and in a oneof', () => {
    const unfinished = { eventId: 'e', model: 'm', producerId: 'a' };
    const recorded = create(RecordResponseRequestSchema, { unfinished, producerId: 'b' });
    expect([...namedProducers(RecordResponseRequestSchema, recorded)].sort()).toEqual(['a', 'b']);
    expect(namedProducers(RecordResponseRequestSchema, create(RecordResponseRequestSchema, {}))).toEqual([
      '',
    ]);
    const hello = create(WatchRequestSchema, { message: { case: 'hello', value: { producerId: 'c' } } });
    expect(namedProducers(WatchRequestSchema, hello)).toEqual(['c']);
    const status = create(WatchRequestSchema, { message: { case: 'status', value: {} } });
    expect(namedProducers(WatchRequestSchema, status)).toEqual([]);
  });

  it('are none where no field can name one', () => {
    expect(canNameProducers(ControlService.method.resolve.input)).toBe(false);
    expect(canNameProducers(ProxyStateSchema)).toBe(false);
    expect(canNameProducers(WatchRequestSchema)).toBe(true);
  });
});
