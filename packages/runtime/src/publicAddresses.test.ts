import { describe, expect, it } from 'vitest';
import { assertPublicHost, isPublicAddress, publicLookup } from './publicAddresses.ts';

describe('addresses', () => {
  it.each([
    '127.0.0.1',
    '10.1.2.3',
    '172.16.0.1',
    '172.31.255.255',
    '192.168.1.1',
    '169.254.169.254',
    '100.64.0.1',
    '0.0.0.0',
    '224.0.0.1',
    '255.255.255.255',
    '::',
    '::1',
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '64:ff9b::7f00:1',
    'fc00::1',
    'fd12:3456::1',
    'fe80::1',
    'ff02::1',
  ])('%s is not public', (address) => {
    expect(isPublicAddress(address)).toBe(false);
  });

  it.each([
    '1.1.1.1',
    '172.15.0.1',
    '172.32.0.1',
    '169.253.0.1',
    '8.8.8.8',
    '2606:4700::1111',
    '::ffff:8.8.8.8',
  ])('%s is public', (address) => {
    expect(isPublicAddress(address)).toBe(true);
  });

  it('that are not public are rejected as hosts, in any spelling that a URL normalises', () => {
    for (const host of ['127.0.0.1', '2130706433', '0x7f.1', '[::1]', '[::ffff:10.0.0.1]', '017700000001']) {
      const { hostname } = new URL(`http://${host}/`);
      expect(() => assertPublicHost(hostname), host).toThrow('not an address of the public internet');
    }
    expect(() => assertPublicHost('api.openai.com')).not.toThrow();
  });

  it('that are not public are rejected when a name resolves to them', async () => {
    const error = await new Promise((resolve) => publicLookup('localhost', {}, resolve));
    expect(error).toMatchObject({ code: 'ERR_ADDRESS_NOT_PUBLIC' });
  });
});
