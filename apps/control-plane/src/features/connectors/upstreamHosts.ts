import { isIP } from 'node:net';
import { AppError } from '@weighbridge/errors';
import { isPublicAddress, SettingsError } from '@weighbridge/runtime';

/** Which upstreams beyond the public internet's https ones the deployment allows. */
export interface UpstreamHosts {
  /** Whether the deployment named this host: it may then speak plain http, and be at any address. */
  allows(url: URL): boolean;
}

/** Reads a list such as `gpu.internal, 10.0.0.7:8000, *.models.local`. Throws, naming it, on what is no host. */
export function upstreamHosts(list: string): UpstreamHosts {
  const entries = list
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .filter((entry) => entry !== '')
    .map(hostEntry);
  return {
    allows: (url) =>
      entries.some(
        ({ host, port }) => isHost(host, url.hostname) && (port === undefined || port === portOf(url)),
      ),
  };
}

/**
 * The base URL as it is kept, without a trailing slash. 422 where it breaks a rule; a host's name is not resolved here,
 * so whoever connects has to look at the address once more.
 */
export function checkedBaseUrl(text: string, hosts: UpstreamHosts): string {
  const why = baseUrlFault(text, hosts);
  if (why === undefined) return new URL(text).href.replace(/\/+$/, '');
  throw new AppError('validation', 'base_url_invalid', `This base_url can't be used: ${why}.`, {
    param: 'base_url',
  });
}

/** What is wrong with a base URL; undefined where it may be used. */
export function baseUrlFault(text: string, hosts: UpstreamHosts): string | undefined {
  if (/[\s\p{C}]/u.test(text) || !URL.canParse(text))
    return 'it is not a URL such as https://api.example.com/v1';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it must begin with https://';
  if (url.username || url.password) return 'it holds a user or password; a credential goes in credential';
  if (text.includes('?') || text.includes('#')) return 'it must end with its path, without "?" or "#"';
  if (hosts.allows(url)) return undefined;
  const howTo = `the deployment can allow that by ALLOWED_UPSTREAM_HOSTS (${url.host})`;
  if (url.protocol === 'http:') return `it is not https; ${howTo}`;
  return isNotPublicName(url.hostname) ? `its host is not on the public internet; ${howTo}` : undefined;
}

function isNotPublicName(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$|\.$/g, '');
  if (isIP(host) !== 0) return !isPublicAddress(host);
  return host === 'localhost' || host.endsWith('.localhost');
}

function hostEntry(entry: string): { host: string; port: string | undefined } {
  const wildcard = entry.startsWith('*.');
  const url = `http://${wildcard ? entry.slice(2) : entry}/`;
  if (!URL.canParse(url) || /[/?#@\s*]/.test(entry.slice(wildcard ? 2 : 0))) {
    throw new SettingsError(`ALLOWED_UPSTREAM_HOSTS is not valid: "${entry}" is no host`);
  }
  const { hostname } = new URL(url);
  const port = /:(\d+)$/.exec(entry)?.[1];
  return { host: wildcard ? `*.${hostname}` : hostname, port };
}

function isHost(entry: string, hostname: string): boolean {
  return entry.startsWith('*.') ? hostname.endsWith(entry.slice(1)) : entry === hostname;
}

function portOf(url: URL): string {
  return url.port || (url.protocol === 'https:' ? '443' : '80');
}
