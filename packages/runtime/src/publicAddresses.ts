import { type LookupAddress, type LookupOptions, lookup } from 'node:dns';
import { BlockList, isIP, isIPv6 } from 'node:net';

/** The error code for a host with an address outside the public internet. */
export const NOT_PUBLIC = 'ERR_ADDRESS_NOT_PUBLIC';

/** Every row of https://www.iana.org/assignments/iana-ipv4-special-registry (2025), and multicast. No vendor is at any of them. */
const SPECIAL_V4: readonly [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.31.196.0', 24],
  ['192.52.193.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['192.175.48.0', 24],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
];
/** What IANA has given out for use on the internet: all else of IPv6 is local, reserved, or leads to an IPv4 address. */
const GLOBAL_V6: readonly [string, number][] = [['2000::', 3]];
/** Every row of https://www.iana.org/assignments/iana-ipv6-special-registry (2025) within it. 6to4 leads to IPv4. */
const SPECIAL_V6: readonly [string, number][] = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['2620:4f:8000::', 48],
  ['3fff::', 20],
];
/** IPv4 addresses as IPv6 sockets show them. */
const MAPPED: readonly [string, number][] = [['::ffff:0:0', 96]];

const special = blockList(SPECIAL_V6, blockList(SPECIAL_V4));
const global = blockList(GLOBAL_V6);
const mapped = blockList(MAPPED);

function blockList(subnets: readonly [string, number][], list = new BlockList()): BlockList {
  for (const [net, prefix] of subnets) list.addSubnet(net, prefix, isIPv6(net) ? 'ipv6' : 'ipv4');
  return list;
}

/** An IPv4 address within an IPv6 one decides: a mapped one, and that of ISATAP (RFC 5214). */
export function isPublicAddress(address: string): boolean {
  if (!isIPv6(address)) return !special.check(address, 'ipv4');
  // With a zone, it is local to a link.
  if (address.includes('%')) return false;
  if (mapped.check(address, 'ipv6')) return !special.check(address, 'ipv6');
  if (!global.check(address, 'ipv6') || special.check(address, 'ipv6')) return false;
  const inner = isatapAddress(address);
  return inner === undefined || isPublicAddress(inner);
}

/** The identifier of an interface that tunnels to an IPv4 address starts with these 32 bits, but for two of them. */
const ISATAP = 0x5efe;

function isatapAddress(address: string): string | undefined {
  const [head = '', tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split('::');
  const groups = (text: string | undefined) =>
    text ? text.split(':').map((group) => Number.parseInt(group, 16)) : [];
  const [first, last] = [groups(head), groups(tail)];
  const all = [...first, ...Array.from({ length: 8 - first.length - last.length }, () => 0), ...last];
  const [flags = 0, mark = 0, high = 0, low = 0] = all.slice(4);
  if ((flags & ~0x0300) !== 0 || mark !== ISATAP) return undefined;
  return [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
}

/** Throws for an IP address outside the public internet. Names pass; `publicLookup` checks them. */
export function assertPublicHost(hostname: string): void {
  const address = hostname.replace(/^\[|\]$/g, '');
  if (isIP(address) !== 0 && !isPublicAddress(address)) throw notPublic(address);
}

type LookupCallback = (
  error: NodeJS.ErrnoException | null,
  address: string | LookupAddress[],
  family?: number,
) => void;

/** `dns.lookup` that fails unless every address is public. It runs at each connection, so a changed DNS record is caught. */
export function publicLookup(hostname: string, options: LookupOptions, callback: LookupCallback): void {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    if (error) return callback(error, []);
    const refused = addresses.find(({ address }) => !isPublicAddress(address));
    if (refused) return callback(notPublic(hostname), []);
    const [first] = addresses;
    if (options.all || !first) return callback(null, addresses);
    callback(null, first.address, first.family);
  });
}

function notPublic(host: string): NodeJS.ErrnoException {
  return Object.assign(new Error(`${host} is not an address of the public internet`), { code: NOT_PUBLIC });
}
