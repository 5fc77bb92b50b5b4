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
    'fec0::1',
    '::ffff:0:808:808',
    '::8.8.8.8',
    '2001::1',
    '2002:808:808::1',
    '64:ff9b::808:808',
    '64:ff9b:1::808:808',
    '3fff::1',
    '5f00::1',
    '4000::1',
    '2606:4700::5efe:10.0.0.1',
    '2606:4700::200:5efe:7f00:1',
    '2606:4700::1%eth0',
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
    '2606:4700::5efe:8.8.8.8',
    '2a00:1450:4001:81b::200a',
    '::ffff:0808:0808',
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

/** The registries of IANA as published in 2025, and the rows of other registries that are as special. Typed in here a second time. */
const REGISTRY_V4 =
  '0.0.0.0/8 0.0.0.0/32 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 192.0.0.0/24 192.0.0.0/29 192.0.0.8/32 192.0.0.9/32 192.0.0.10/32 192.0.0.170/32 192.0.0.171/32 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 255.255.255.255/32';
const REGISTRY_V6 =
  '::1/128 ::/128 ::ffff:0:0:0/96 ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 100:0:0:1::/64 2001::/23 2001::/32 2001:1::1/128 2001:1::2/128 2001:1::3/128 2001:2::/48 2001:3::/32 2001:4:112::/48 2001:10::/28 2001:20::/28 2001:30::/28 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8';

interface Range {
  readonly first: bigint;
  readonly last: bigint;
}

const bitsOf = (text: string) => (text.includes(':') ? 128 : 32);

function numberOf(text: string): bigint {
  if (!text.includes(':')) return text.split('.').reduce((sum, byte) => (sum << 8n) | BigInt(byte), 0n);
  const [head = '', tail = ''] = text.split('::');
  const groups = (part: string) => part.split(':').filter((group) => group !== '');
  const missing = 8 - groups(head).length - groups(tail).length;
  const all = [...groups(head), ...Array.from({ length: missing }, () => '0'), ...groups(tail)];
  return all.reduce((sum, group) => (sum << 16n) | BigInt(`0x${group}`), 0n);
}

function textOf(number: bigint, bits: number): string {
  const [step, parts] = bits === 32 ? [8n, 4] : [16n, 8];
  const all = Array.from(
    { length: parts },
    (_, at) => (number >> (step * BigInt(parts - 1 - at))) & ((1n << step) - 1n),
  );
  return all.map((part) => part.toString(bits === 32 ? 10 : 16)).join(bits === 32 ? '.' : ':');
}

function rangeOf(row: string): Range {
  const [net = '', prefix = ''] = row.split('/');
  const first = numberOf(net);
  return { first, last: first + (1n << BigInt(bitsOf(net) - Number(prefix))) - 1n };
}

it.each([...REGISTRY_V4.split(' '), ...REGISTRY_V6.split(' ')])(
  'no address of %s is public, and its neighbours are judged by themselves',
  (row) => {
    const bits = bitsOf(row);
    const rows = (bits === 32 ? REGISTRY_V4 : REGISTRY_V6).split(' ').map(rangeOf);
    const { first, last } = rangeOf(row);
    for (const number of [first, first + (last - first) / 2n, last]) {
      expect(isPublicAddress(textOf(number, bits)), textOf(number, bits)).toBe(false);
      if (bits === 32) expect(isPublicAddress(`::ffff:${textOf(number, bits)}`)).toBe(false);
    }
    for (const number of [first - 1n, last + 1n]) {
      if (number < 0n || number >> BigInt(bits) !== 0n) continue;
      const isGiven = bits === 32 || number >> 125n === 1n;
      const isSpecial = rows.some((range) => range.first <= number && number <= range.last);
      expect(isPublicAddress(textOf(number, bits)), textOf(number, bits)).toBe(isGiven && !isSpecial);
    }
  },
);
