import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';

/** An identity that AWS knows. */
export interface AwsAccount {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Of temporary credentials. */
  readonly sessionToken?: string;
  /** When they end, in Unix milliseconds. */
  readonly expiresAtMs?: number;
}

export interface SignedCall {
  readonly method: string;
  /** As it came, with its query. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

export interface SigV4Fault {
  readonly code: string;
  readonly message: string;
}

const MAX_SKEW_MS = 5 * 60_000;
const AUTHORIZATION =
  /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, ?SignedHeaders=([a-z0-9;-]+), ?Signature=([0-9a-f]{64})$/;
/** https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html: these must be signed. */
const ALWAYS_SIGNED = ['host', 'x-amz-date'];

/**
 * Why AWS refuses a call; undefined if its signature is right. The signature is computed anew from what came over the wire,
 * by the steps of AWS's documentation alone.
 */
export function sigV4Fault(
  call: SignedCall,
  accounts: readonly AwsAccount[],
  { service, region, nowMs }: { readonly service: string; readonly region: string; readonly nowMs: number },
): SigV4Fault | undefined {
  const { headers } = call;
  if (headers.authorization === undefined) {
    return { code: 'MissingAuthenticationTokenException', message: 'Missing Authentication Token' };
  }
  const [, keyId = '', day = '', itsRegion, itsService, names = '', signature = ''] =
    AUTHORIZATION.exec(headers.authorization) ?? [];
  if (signature === '')
    return { code: 'IncompleteSignatureException', message: 'Authorization is malformed.' };
  const account = accounts.find(({ accessKeyId }) => accessKeyId === keyId);
  const token = headers['x-amz-security-token'];
  if (!account || token !== account.sessionToken) {
    return {
      code: 'UnrecognizedClientException',
      message: 'The security token included in the request is invalid.',
    };
  }
  if (account.expiresAtMs !== undefined && nowMs >= account.expiresAtMs) {
    return {
      code: 'ExpiredTokenException',
      message: 'The security token included in the request is expired',
    };
  }
  const invalid = (message: string) => ({ code: 'InvalidSignatureException', message });
  if (itsRegion !== region || itsService !== service) {
    return invalid(`Credential should be scoped to a valid region and to ${service}.`);
  }
  const date = String(headers['x-amz-date'] ?? '');
  const [, y, mo, d, h, mi, s] = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$/.exec(date) ?? [];
  const signedAtMs = Date.UTC(Number(y), Number(mo) - 1, Number(d), Number(h), Number(mi), Number(s));
  if (Number.isNaN(signedAtMs) || !date.startsWith(day))
    return invalid('Date in Credential scope does not match.');
  if (Math.abs(nowMs - signedAtMs) > MAX_SKEW_MS) {
    return invalid(
      `Signature ${signedAtMs < nowMs ? 'expired' : 'not yet current'}: ${date} is too far from now.`,
    );
  }
  const signed = names.split(';');
  const mustBeSigned = [
    ...ALWAYS_SIGNED,
    ...Object.keys(headers).filter((name) => name.startsWith('x-amz-')),
  ];
  if (mustBeSigned.some((name) => !signed.includes(name))) return invalid('A header must be signed.');
  const payloadHash = sha256(call.body);
  const sentHash = headers['x-amz-content-sha256'];
  if (sentHash !== undefined && sentHash !== payloadHash) return invalid('The payload has another hash.');
  const scope = `${day}/${region}/${service}/aws4_request`;
  const text = [
    'AWS4-HMAC-SHA256',
    date,
    scope,
    sha256(canonicalRequest(call, signed, payloadHash, service)),
  ].join('\n');
  const key = [day, region, service, 'aws4_request'].reduce<Buffer>(
    (secret, part) => hmac(secret, part),
    Buffer.from(`AWS4${account.secretAccessKey}`),
  );
  return timingSafeEqual(hmac(key, text), Buffer.from(signature, 'hex'))
    ? undefined
    : invalid('The request signature we calculated does not match the signature you provided.');
}

function canonicalRequest(
  { method, url, headers }: SignedCall,
  signed: readonly string[],
  payloadHash: string,
  service: string,
) {
  const [path = '/', query = ''] = url.split('?');
  const values = signed.map(
    (name) =>
      `${name}:${String(headers[name] ?? '')
        .trim()
        .replace(/ +/g, ' ')}\n`,
  );
  // For each service but S3, the path is encoded once more than it is sent.
  const encoded = service === 's3' ? path : path.split('/').map(uriEncode).join('/');
  const parameters = query === '' ? '' : query.split('&').sort().join('&');
  return [method, encoded, parameters, values.join(''), signed.join(';'), payloadHash].join('\n');
}

function uriEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

const sha256 = (data: string | Buffer) => createHash('sha256').update(data).digest('hex');
const hmac = (key: Buffer, text: string) => createHmac('sha256', key).update(text).digest();
