import { describe, expect, it } from 'vitest';
import { authority } from './grpcServer.ts';

describe('the address of the gRPC server', () => {
  it.each([
    ['0.0.0.0', '0.0.0.0:8082'],
    ['control-plane.example', 'control-plane.example:8082'],
    ['::', '[::]:8082'],
    ['::1', '[::1]:8082'],
  ])('of %s is one that gRPC can listen on', (host, address) => {
    expect(authority(host, 8082)).toBe(address);
  });
});
