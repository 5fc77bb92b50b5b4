import { isIP } from 'node:net';
import { AppError } from '@weighbridge/errors';
import type { FastifyRequest } from 'fastify';

/** Headers of proxies that pass on the requests of others. */
const FORWARDED = ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'];

/**
 * Throws 403 unless a browser of this machine sent the request, by a name of this machine: not another machine, not a proxy for
 * one, and not a page whose host name was made to lead here.
 */
export function assertLoopback({ raw, headers }: Pick<FastifyRequest, 'raw' | 'headers'>): void {
  const isDirect = !FORWARDED.some((name) => headers[name] !== undefined);
  if (isDirect && isLoopbackAddress(raw.socket.remoteAddress ?? '') && isLoopbackHost(headers.host ?? ''))
    return;
  const message = 'A sign-in link can be used only on the machine that runs the service. Sign in with a key.';
  throw new AppError('permission', 'sign_in_link_not_local', message);
}

/** Whether an address of a socket is of this machine; IPv4 may be written as IPv6. */
function isLoopbackAddress(address: string): boolean {
  const plain = address.replace(/^::ffff:/, '');
  return plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'));
}

function isLoopbackHost(host: string): boolean {
  if (!URL.canParse(`http://${host}`)) return false;
  const { hostname } = new URL(`http://${host}`);
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}
