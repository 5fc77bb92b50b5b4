import { isIP } from 'node:net';
import { AppError } from '@weighbridge/errors';
import { isPublicAddress, SettingsError } from '@weighbridge/runtime';

/** The hosts that the deployment allows beyond https on the public internet. */
export interface UpstreamHosts {
  /** Whether the deployment allows this host, which then may use plain http and any address. */
  allows(url: URL): boolean;
}

/** Hosts with the texts that they were listed by. */
export interface HostList extends UpstreamHosts {
  readonly entries: readonly string[];
}

/** The hosts of the setting ALLOWED_UPSTREAM_HOSTS. */
export function upstreamHosts(list: string): UpstreamHosts {
  return hostList('ALLOWED_UPSTREAM_HOSTS', list);
}

/** Parses a list such as `gpu.internal, 10.0.0.7:8000, *.models.local`. Throws a SettingsError that names an invalid entry. */
export function hostList(setting: string, list: string): HostList {
  const entries = list
    .split(',')
    .map((entry) => entry.trim().toLowerCase())
    .filter((entry) => entry !== '')
    .map((entry) => hostEntry(setting, entry));
  return {
    entries: entries.map(({ host, port }) => (port === undefined ? host : `${host}:${port}`)),
    allows: (url) =>
      entries.some(
        ({ host, port }) => isHost(host, url.hostname) && (port === undefined || port === portOf(url)),
      ),
  };
}

/**
 * Returns the base URL without a trailing slash; throws a 422 if it breaks a rule. The host is not resolved here, so the
 * address has to be checked again on connecting.
 */
export function validBaseUrl(text: string, hosts: UpstreamHosts): string {
  const why = baseUrlFault(text, hosts);
  if (why === undefined) return new URL(text).href.replace(/\/+$/, '');
  throw new AppError('validation', 'base_url_invalid', `This base_url cannot be used: ${why}.`, {
    param: 'base_url',
  });
}

/** The rule that a base URL breaks; undefined if it may be used. */
export function baseUrlFault(text: string, hosts: UpstreamHosts): string | undefined {
  if (/[\s\p{C}]/u.test(text) || !URL.canParse(text))
    return 'it is not a URL such as https://api.example.com/v1';
  const url = new URL(text);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it must begin with https://';
  if (url.username || url.password) return 'it has a user or password: put the credential in credential';
  if (text.includes('?') || text.includes('#')) return 'it must end with its path, without "?" or "#"';
  return hostFault(url, hosts, 'ALLOWED_UPSTREAM_HOSTS');
}

/** Why nothing may be sent to a URL that the deployment does not allow; undefined if something may. */
export function hostFault(url: URL, hosts: UpstreamHosts, setting: string): string | undefined {
  if (hosts.allows(url)) return undefined;
  const howTo = `to allow it, add ${url.host} to ${setting}`;
  if (url.protocol === 'http:') return `it is not https; ${howTo}`;
  return isNotPublicName(url.hostname) ? `its host is not on the public internet; ${howTo}` : undefined;
}

function isNotPublicName(hostname: string): boolean {
  const host = hostname.replace(/^\[|\]$|\.$/g, '');
  if (isIP(host) !== 0) return !isPublicAddress(host);
  return host === 'localhost' || host.endsWith('.localhost');
}

function hostEntry(setting: string, entry: string): { host: string; port: string | undefined } {
  const wildcard = entry.startsWith('*.');
  const url = `http://${wildcard ? entry.slice(2) : entry}/`;
  if (!URL.canParse(url) || /[/?#@\s*]/.test(entry.slice(wildcard ? 2 : 0))) {
    throw new SettingsError(`${setting} is not valid: "${entry}" is not a host`);
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
