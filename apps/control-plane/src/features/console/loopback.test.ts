import { describe, expect, it } from 'vitest';
import { assertLoopback } from './loopback.ts';

const request = (remoteAddress: string | undefined, host: string | undefined) =>
  ({ raw: { socket: { remoteAddress } }, headers: { host } }) as unknown as Parameters<
    typeof assertLoopback
  >[0];

describe('a request of this machine', () => {
  it.each([
    ['127.0.0.1', 'localhost:8080'],
    ['::ffff:127.0.0.1', '127.0.0.1:8080'],
    ['::1', '[::1]:8080'],
    ['127.1.2.3', 'localhost'],
  ])('is one from %s to %s', (address, host) => {
    expect(() => assertLoopback(request(address, host))).not.toThrow();
  });

  it.each([
    ['10.0.0.1', 'localhost:8080'],
    ['::ffff:10.0.0.1', 'localhost'],
    ['fe80::1', '[::1]'],
    [undefined, 'localhost'],
    ['127.0.0.1', undefined],
    ['127.0.0.1', 'rebound.example'],
    ['127.0.0.1', 'localhost.evil.example'],
    ['127.0.0.1', 'a b'],
  ])('is none from %s to %s', (address, host) => {
    expect(() => assertLoopback(request(address, host))).toThrow('only on the machine');
  });
});
