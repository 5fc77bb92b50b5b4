import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Opaque, OpaqueKind } from '../ir/request.ts';

/** What begins each envelope. No vendor's value begins so. */
export const ENVELOPE_PREFIX = 'wb1.';
const MAC_BYTES = 16;
const FIELDS = 7;
const KINDS: Readonly<Record<string, OpaqueKind>> = {
  s: 'signature',
  r: 'redacted',
  e: 'encrypted',
  t: 'thought',
};

/** Whose opaque values they are. */
export interface SealScope {
  /** Secret bytes, the same in each proxy. */
  readonly key: Buffer;
  readonly principal: string;
}

/**
 * The envelope in which an opaque value travels through a caller's history:
 * `wb1.<mac>.<owner>.<kind>.<id>.<text>.<data>`, the data as it is, since it can be many KiB. The MAC covers all of it, the
 * principal and the account, so that a value returns only to the account that issued it, for the principal that got it.
 */
export function sealOpaque(scope: SealScope, account: string, opaque: Opaque, text = ''): string {
  const body = envelopeBody(opaque.owner, opaque.kind, opaque.id, text, opaque.data);
  return `${ENVELOPE_PREFIX}${macOf(scope, account, body)}.${body}`;
}

/** A value in the caller's history: of an envelope what is in it, else of `owner` itself. Undefined for a damaged envelope. */
export function readOpaque(value: string, owner: string, kind: OpaqueKind): Opaque | undefined {
  if (!value.startsWith(ENVELOPE_PREFIX)) return { owner, kind, data: value, id: '' };
  const fields = splitEnvelope(value);
  if (!fields) return undefined;
  const [, mac = '', sealedOwner = '', kindLetter = '', id = '', text = '', data = ''] = fields;
  const sealedKind = KINDS[kindLetter];
  if (!sealedKind) return undefined;
  return {
    owner: decoded(sealedOwner),
    kind: sealedKind,
    data,
    id: decoded(id),
    envelope: { mac, text: decoded(text) },
  };
}

const SEPARATOR = '\n';

/** Several envelopes as one value, for dialects with one place for all. */
export function joinEnvelopes(envelopes: readonly string[]): string {
  return envelopes.join(SEPARATOR);
}

/** The values that `joinEnvelopes` joined; damaged envelopes are left out. */
export function readOpaques(value: string, owner: string, kind: OpaqueKind): readonly Opaque[] {
  if (!value.startsWith(ENVELOPE_PREFIX)) return [{ owner, kind, data: value, id: '' }];
  return value.split(SEPARATOR + ENVELOPE_PREFIX).flatMap((part, index) => {
    return readOpaque(index === 0 ? part : ENVELOPE_PREFIX + part, owner, kind) ?? [];
  });
}

/** Whether a value from an envelope was issued by this account for this principal, and is unchanged. */
export function isIssuedBy(scope: SealScope, account: string, opaque: Opaque): boolean {
  if (!opaque.envelope) return false;
  const { mac, text } = opaque.envelope;
  const expected = macOf(
    scope,
    account,
    envelopeBody(opaque.owner, opaque.kind, opaque.id, text, opaque.data),
  );
  return mac.length === expected.length && timingSafeEqual(Buffer.from(mac), Buffer.from(expected));
}

/** The last field may have dots. */
function splitEnvelope(value: string): string[] | undefined {
  const fields: string[] = [];
  let at = 0;
  while (fields.length < FIELDS - 1) {
    const dot = value.indexOf('.', at);
    if (dot < 0) return undefined;
    fields.push(value.slice(at, dot));
    at = dot + 1;
  }
  fields.push(value.slice(at));
  return fields;
}

function envelopeBody(owner: string, kind: OpaqueKind, id: string, text: string, data: string): string {
  return `${encoded(owner)}.${kind[0]}.${encoded(id)}.${encoded(text)}.${data}`;
}

function macOf({ key, principal }: SealScope, account: string, body: string): string {
  const context = `${encoded(principal)}.${encoded(account)}.`;
  const mac = createHmac('sha256', key).update(context).update(body).digest();
  return mac.subarray(0, MAC_BYTES).toString('base64url');
}

function encoded(text: string): string {
  return Buffer.from(text).toString('base64url');
}

function decoded(text: string): string {
  return Buffer.from(text, 'base64url').toString();
}
